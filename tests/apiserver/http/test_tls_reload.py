"""Certificates that change on disk: new connections see them, open ones go on."""

import asyncio
import ssl
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from sampan.apiserver.config.config_reload import reloading_certificates
from sampan.apiserver.config.server_config import ServerConfig, TlsFiles
from sampan.apiserver.proxy.kubelets import KubeletAccess
from sampan.cluster.pki import ADMIN, CA, KUBELET_CLIENT, SERVER, Pki
from tests.apiserver.http.http_server import Site, site

PODS = "/api/v1/namespaces/default/pods"


def other_keys(directory: Path) -> Pki:
    """Of another CA altogether."""
    pki = Pki(directory)
    pki.ensure(names=("localhost", "127.0.0.1"), now=time.time())
    return pki


async def test_certificates_are_read_again(tmp_path: Path) -> None:
    certificates: list[Mapping[str, str]] = []
    kubelets: list[ssl.SSLContext] = []
    async with site(tmp_path) as here:
        pki = here.pki
        tls = TlsFiles(certificate=pki.certificate(SERVER), key=pki.key(SERVER), client_ca=pki.certificate(CA))
        access = KubeletAccess(certificate=pki.certificate(KUBELET_CLIENT), key=pki.key(KUBELET_CLIENT))
        config = ServerConfig(tls=tls, kubelets=access)
        serving, asking = reloading_certificates(
            config, use_tls=here.http.use_tls, use_trust=certificates.append, use_kubelets=kubelets.append
        )
        before, old = here.trusting(ADMIN), pki.certificate(CA).read_text()
        async with here.wire(context=before) as open_one:
            assert (await open_one.ask("GET", PODS)).code == 200
            serving.check()
            assert certificates == []
            fresh = other_keys(tmp_path / "other")
            for name in (SERVER, ADMIN, KUBELET_CLIENT, CA):
                pki.certificate(name).write_bytes(fresh.certificate(name).read_bytes())
            serving.check()
            assert certificates == [], "the certificate and its key do not belong together yet"
            assert await _reaches(here, before)
            for name in (SERVER, ADMIN, KUBELET_CLIENT, CA):
                pki.key(name).write_bytes(fresh.key(name).read_bytes())
            serving.check()
            asking.check()
            assert certificates == [{"client-ca-file": fresh.certificate(CA).read_text()}]
            assert len(kubelets) == 1
            assert await _reaches(here, here.trusting(ADMIN)), "by the new CA, as one of its own"
            assert not await _reaches(here, before)
            assert (await open_one.ask("GET", PODS)).code == 200, "an open connection goes on"
            assert old != pki.certificate(CA).read_text()


async def _reaches(here: Site, context: ssl.SSLContext) -> bool:
    try:
        async with here.wire(context=context) as wire:
            return (await wire.ask("GET", PODS)).code == 200
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return False


async def test_a_connection_does_not_outlive_the_clients_certificate(tmp_path: Path) -> None:
    later_s = 0.0

    async with (
        site(tmp_path, now=lambda: time.time() + later_s) as here,
        here.wire(context=here.trusting(ADMIN)) as wire,
    ):
        assert (await wire.ask("GET", PODS)).code == 200
        later_s = 366 * 24 * 3600.0
        refused = await wire.ask("GET", PODS)
        assert (refused.code, refused.json["reason"]) == (401, "Unauthorized")
        assert (await wire.ask("GET", "/version")).code == 401, "not even as somebody anonymous"


async def test_files_that_are_gone_change_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with site(tmp_path) as here:
        pki = here.pki
        tls = TlsFiles(certificate=pki.certificate(SERVER), key=pki.key(SERVER))
        (serving,) = reloading_certificates(
            ServerConfig(tls=tls), use_tls=here.http.use_tls, use_trust=print, use_kubelets=print
        )
        context = here.trusting(ADMIN)
        pki.certificate(SERVER).unlink()
        serving.check()
        pki.certificate(SERVER).write_text("nonsense")
        serving.check()
        assert "keeping the previous contents" in caplog.text
        assert await _reaches(here, context)
