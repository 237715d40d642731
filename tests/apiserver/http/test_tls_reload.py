"""Reloading of TLS certificates: new connections use them, open connections continue."""

import asyncio
import ssl
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from sampan.apiserver.config.config_reload import make_reloading_certificates
from sampan.apiserver.config.server_config import ServerConfig, TlsFiles
from sampan.apiserver.proxy.kubelets import KubeletAccess
from sampan.cluster.pki import ADMIN, CA, KUBELET_CLIENT, SERVER, Pki
from tests.apiserver.http.http_server import Site, open_site

PODS = "/api/v1/namespaces/default/pods"


def make_pki(directory: Path) -> Pki:
    """Return keys that are signed by another CA."""
    pki = Pki(directory)
    pki.ensure(names=("localhost", "127.0.0.1"), now=time.time())
    return pki


async def test_changed_certificates_are_reloaded_for_new_connections(tmp_path: Path) -> None:
    certificates: list[Mapping[str, str]] = []
    kubelets: list[ssl.SSLContext] = []
    async with open_site(tmp_path) as site:
        pki = site.pki
        tls = TlsFiles(certificate=pki.certificate(SERVER), key=pki.key(SERVER), client_ca=pki.certificate(CA))
        access = KubeletAccess(certificate=pki.certificate(KUBELET_CLIENT), key=pki.key(KUBELET_CLIENT))
        config = ServerConfig(tls=tls, kubelets=access)
        serving, kubelet_client = make_reloading_certificates(
            config, use_tls=site.http.use_tls, use_trust=certificates.append, use_kubelets=kubelets.append
        )
        before, old = site.client_tls(ADMIN), pki.certificate(CA).read_text()
        async with site.wire(context=before) as open_connection:
            assert (await open_connection.request("GET", PODS)).code == 200
            serving.check()
            assert certificates == []
            fresh = make_pki(tmp_path / "other")
            for name in (SERVER, ADMIN, KUBELET_CLIENT, CA):
                pki.certificate(name).write_bytes(fresh.certificate(name).read_bytes())
            serving.check()
            assert certificates == [], "the certificate does not match its key yet"
            assert await _can_list_pods(site, before)
            for name in (SERVER, ADMIN, KUBELET_CLIENT, CA):
                pki.key(name).write_bytes(fresh.key(name).read_bytes())
            serving.check()
            kubelet_client.check()
            assert certificates == [{"client-ca-file": fresh.certificate(CA).read_text()}]
            assert len(kubelets) == 1
            assert await _can_list_pods(site, site.client_tls(ADMIN)), "with a client certificate of the new CA"
            assert not await _can_list_pods(site, before)
            assert (await open_connection.request("GET", PODS)).code == 200, "an open connection continues"
            assert old != pki.certificate(CA).read_text()


async def _can_list_pods(site: Site, context: ssl.SSLContext) -> bool:
    try:
        async with site.wire(context=context) as wire:
            return (await wire.request("GET", PODS)).code == 200
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return False


async def test_expired_client_certificate_gets_401_on_an_open_connection(tmp_path: Path) -> None:
    later_s = 0.0

    async with (
        open_site(tmp_path, now=lambda: time.time() + later_s) as site,
        site.wire(context=site.client_tls(ADMIN)) as wire,
    ):
        assert (await wire.request("GET", PODS)).code == 200
        later_s = 366 * 24 * 3600.0
        refused = await wire.request("GET", PODS)
        assert (refused.code, refused.json["reason"]) == (401, "Unauthorized")
        assert (await wire.request("GET", "/version")).code == 401, "nor as the anonymous user"


async def test_missing_or_invalid_certificate_file_keeps_the_previous_certificate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_site(tmp_path) as site:
        pki = site.pki
        tls = TlsFiles(certificate=pki.certificate(SERVER), key=pki.key(SERVER))
        (serving,) = make_reloading_certificates(
            ServerConfig(tls=tls), use_tls=site.http.use_tls, use_trust=print, use_kubelets=print
        )
        context = site.client_tls(ADMIN)
        pki.certificate(SERVER).unlink()
        serving.check()
        pki.certificate(SERVER).write_text("nonsense")
        serving.check()
        assert "keeping the previous contents" in caplog.text
        assert await _can_list_pods(site, context)
