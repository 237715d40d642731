"""Authentication by the request headers of a front proxy, over real TLS with two CAs."""

import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, TCPConnector
from multidict import CIMultiDict

from sampan.apiserver.authn.cluster_authentication_trust import merge_data
from sampan.apiserver.authn.front_proxy import FrontProxyAuthenticator, FrontProxySettings
from sampan.apiserver.config.server_config import ServerConfig, TlsFiles
from sampan.apiserver.request.call import Call, Query, UserInfo
from sampan.apiserver.server import ApiServer
from sampan.cluster.pki import ADMIN, CA, SERVER
from sampan.host.clock import RealClock
from sampan.machinery import errors
from sampan.machinery.pki.certificates import KeyPair, SigningRequest, issue, make_ca
from sampan.machinery.pki.server_tls import PeerCertificate
from sampan.storage.memory import MemoryBackend
from sampan.testing.keys import KEYS

HEADERS: dict[str, Any] = {
    "username_headers": ("X-Remote-User", "X-Other-User"),
    "uid_headers": ("X-Remote-Uid",),
    "group_headers": ("X-Remote-Group",),
    "extra_prefixes": ("X-Remote-Extra-",),
}
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def authenticate(
    *headers: tuple[str, str], proxy: str | None = "front", allowed: tuple[str, ...] = ()
) -> tuple[Any, Call]:
    settings = FrontProxySettings(ca=Path("unused"), allowed_names=allowed, **HEADERS)
    certificate = PeerCertificate(proxy, (), float("inf")) if proxy is not None else None
    call = Call(method="GET", path="/", query=Query(""), headers=CIMultiDict(headers), proxy_certificate=certificate)
    return FrontProxyAuthenticator(settings).authenticate(call), call


def test_request_headers_set_the_user_and_are_removed() -> None:
    user, call = authenticate(
        ("X-Remote-User", "ann"),
        ("x-remote-uid", "7"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-Example.com%2fColour", "red"),
        ("X-Remote-Extra-Example.com%2fColour", "blue"),
        ("Accept", "text/plain"),
    )
    assert user == UserInfo("ann", "7", ("a", "b", "system:authenticated"), {"example.com/colour": ("red", "blue")})
    assert dict(call.headers) == {"Accept": "text/plain"}


@pytest.mark.parametrize(
    ("headers", "options"),
    [
        ([("X-Remote-User", "ann")], {"proxy": None}),
        ([("X-Remote-User", "ann")], {"allowed": ("another",)}),
        ([("X-Remote-Group", "system:masters")], {}),
        ([("X-Remote-User", "")], {}),
    ],
)
def test_headers_without_trusted_proxy_or_username_are_ignored(
    headers: list[tuple[str, str]], options: dict[str, Any]
) -> None:
    assert authenticate(*headers, **options)[0] is None


def test_expired_proxy_certificate_is_rejected() -> None:
    settings = FrontProxySettings(ca=Path("unused"), **HEADERS)
    certificate = PeerCertificate("front", (), 1000.0)
    call = Call(
        method="GET", path="/", query=Query(""), headers={"X-Remote-User": "ann"}, proxy_certificate=certificate
    )
    with pytest.raises(errors.Unauthorized):
        FrontProxyAuthenticator(settings, now=lambda: 1000.1).authenticate(call)


# -- over TLS --------------------------------------------------------------------------------------------------------


def _write(directory: Path, name: str, pair: KeyPair) -> Path:
    (directory / f"{name}.crt").write_bytes(pair.certificate)
    (directory / f"{name}.key").write_bytes(pair.key)
    return directory / f"{name}.crt"


class Client:
    def __init__(self, server: ApiServer, directory: Path, trusted: Path) -> None:
        self._url, self._directory, self._trusted = f"https://127.0.0.1:{server.secure_port}", directory, trusted

    async def whoami(self, certificate: str, *headers: tuple[str, str]) -> Any:
        """Return the username, or the status code of an error."""
        context = ssl.create_default_context(cafile=str(self._trusted))
        if certificate:
            context.load_cert_chain(self._directory / f"{certificate}.crt", self._directory / f"{certificate}.key")
        async with ClientSession(connector=TCPConnector(ssl=context)) as session:
            response = await session.post(self._url + WHOAMI, json={}, headers=CIMultiDict(headers))
            body = await response.json()
        return body["status"]["userInfo"]["username"] if response.status == 201 else response.status

    async def get(self, path: str) -> Any:
        context = ssl.create_default_context(cafile=str(self._trusted))
        context.load_cert_chain(self._directory / "admin.crt", self._directory / "admin.key")
        async with ClientSession(connector=TCPConnector(ssl=context)) as session:
            return await (await session.get(self._url + path)).json()


@asynccontextmanager
async def server_with_front_proxy(directory: Path) -> AsyncIterator[Client]:
    pki, now = KEYS.write(directory / "pki"), time.time()
    proxies = make_ca("proxies", now=now)
    ca = _write(directory, "proxies", proxies)
    for name in ("front", "disallowed"):
        _write(directory, name, issue(proxies, SigningRequest(common_name=name, is_client=True), now=now))
    _write(directory, "admin", KeyPair(pki.certificate(ADMIN).read_bytes(), pki.key(ADMIN).read_bytes()))
    files = TlsFiles(certificate=pki.certificate(SERVER), key=pki.key(SERVER), client_ca=pki.certificate(CA))
    settings = FrontProxySettings(ca=ca, allowed_names=("front",), **HEADERS)
    config = ServerConfig(any_secure_port=True, advertise_address="192.0.2.1", tls=files, front_proxy=settings)
    async with (
        MemoryBackend(clock=RealClock()) as backend,
        ApiServer(config=config, backend=backend, clock=RealClock()) as server,
    ):
        yield Client(server, directory, pki.certificate(CA))


async def test_client_and_proxy_certificates_are_distinguished(tmp_path: Path) -> None:
    async with server_with_front_proxy(tmp_path) as client:
        ann = ("X-Remote-User", "ann")
        assert await client.whoami("front", ann) == "ann"
        assert await client.whoami("admin") == "kubernetes-admin"
        assert await client.whoami("admin", ann) == "kubernetes-admin", (
            "headers are ignored with a certificate of a user"
        )
        assert await client.whoami("disallowed", ann) == 401
        assert await client.whoami("front") == 401, "a proxy is not a user itself"
        assert await client.whoami("", ann) == 403, "anonymous users may not create a SelfSubjectReview"


async def test_extension_apiserver_authentication_config_map_is_published(tmp_path: Path) -> None:
    async with server_with_front_proxy(tmp_path) as client:
        response = await client.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
        data = response["data"]
        assert data.pop("client-ca-file") == (tmp_path / "pki/ca.crt").read_text()
        assert data.pop("requestheader-client-ca-file") == (tmp_path / "proxies.crt").read_text()
        assert {key: msgspec.json.decode(value) for key, value in data.items()} == {
            "requestheader-allowed-names": ["front"],
            "requestheader-extra-headers-prefix": ["X-Remote-Extra-"],
            "requestheader-group-headers": ["X-Remote-Group"],
            "requestheader-uid-headers": ["X-Remote-Uid"],
            "requestheader-username-headers": ["X-Remote-User", "X-Other-User"],
        }


@pytest.mark.parametrize(
    ("present", "desired", "expected"),
    [
        ({}, {"requestheader-allowed-names": '["a"]'}, {"requestheader-allowed-names": '["a"]'}),
        (
            {"requestheader-allowed-names": '["a","b"]', "other": "x"},
            {"requestheader-allowed-names": '["b","c"]'},
            {"requestheader-allowed-names": '["a","b","c"]', "other": "x"},
        ),
        (
            {"requestheader-allowed-names": "rubbish"},
            {"requestheader-allowed-names": "[]"},
            {"requestheader-allowed-names": "[]"},
        ),
    ],
)
def test_allowed_names_of_several_servers_are_merged(
    present: dict[str, str], desired: dict[str, str], expected: dict[str, str]
) -> None:
    assert merge_data(present, desired) == expected


def test_client_ca_bundles_of_several_servers_are_merged() -> None:
    first, second = (make_ca(name, now=0.0).certificate.decode() for name in ("one", "two"))
    both = merge_data({"client-ca-file": first}, {"client-ca-file": second})
    assert both["client-ca-file"] == first + second
    assert merge_data(both, {"client-ca-file": second}) == both
