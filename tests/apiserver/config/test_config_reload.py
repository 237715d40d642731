"""Reloading of configuration files: a file with errors keeps the previous configuration."""

from pathlib import Path

import pytest

from sampan.apiserver.authn.authentication_configuration import read_authentication
from sampan.apiserver.authn.authenticator import TokenError
from sampan.apiserver.authz.authorization_configuration import read_authorization
from sampan.apiserver.config.config_reload import INTERVAL_S, ReloadingFile
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.server import ApiServer
from sampan.host.clock import VirtualClock
from sampan.storage.memory import MemoryBackend
from tests.apiserver.authn.oidc.jwt_issuer import HEAD, JWT
from tests.apiserver.authz.rbac_objects import attributes_of


@pytest.mark.parametrize("fault", [OSError("gone"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")])
@pytest.mark.parametrize("when", ["read", "used"])
def test_unusable_file_keeps_the_previous_configuration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: Exception, when: str
) -> None:
    file, used = tmp_path / "file", list[str]()
    file.write_text("good")

    def read(path: Path) -> str:
        if when == "read" and path.read_text() == "bad":
            raise fault
        return path.read_text()

    def use(text: str) -> None:
        if when == "used" and text == "bad":
            raise fault
        used.append(text)

    reloading = ReloadingFile(file, read=read, use=use, clock=VirtualClock())
    file.write_text("bad")
    reloading.check()
    assert not used
    assert str(fault) in caplog.text
    file.write_text("better")
    reloading.check()
    assert used == ["better"]


AUTHZ = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: %s, name: a}]\n"
TOKEN = "e30.eyJpc3MiOiJodHRwczovL2kifQ.eA"
"""A token of the issuer https://i without a valid signature."""


async def token_error(server: ApiServer) -> str:
    try:
        await server.security.tokens.authenticate_token(TOKEN)
    except TokenError as fault:
        return str(fault)
    return ""


async def test_changed_authentication_and_authorization_files_take_effect(tmp_path: Path) -> None:
    authn, authz, clock = tmp_path / "authn.yaml", tmp_path / "authz.yaml", VirtualClock()
    authn.write_text(HEAD)
    authz.write_text(AUTHZ % "AlwaysDeny")
    config = ServerConfig(
        secure_port=0,
        advertise_address="192.0.2.1",
        jwt_issuers=read_authentication(authn).issuers,
        authentication_config=authn,
        authorization_modes=read_authorization(authz),
        authorization_config=authz,
    )
    async with (
        MemoryBackend(clock=clock) as backend,
        ApiServer(config=config, backend=backend, clock=clock) as server,
    ):
        assert not await server.security.authorizer.is_allowed(attributes_of("get", "pods"))
        assert await token_error(server) == "invalid bearer token"
        authz.write_text(AUTHZ % "AlwaysAllow")
        authn.write_text(HEAD + JWT)
        await clock.advance(INTERVAL_S)
        assert await server.security.authorizer.is_allowed(attributes_of("get", "pods"))
        assert "oidc: verify token" in await token_error(server)
        authz.write_text(AUTHZ % "Nonsense")
        authn.write_text(HEAD)
        await clock.advance(INTERVAL_S)
        assert await server.security.authorizer.is_allowed(attributes_of("get", "pods"))
        assert await token_error(server) == "invalid bearer token"
