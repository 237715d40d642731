"""Files that a running server follows: who decides, and whose tokens are believed."""

from pathlib import Path

from sampan.apiserver.authn.authenticator import TokenError
from sampan.apiserver.authn.configuration import read_authentication
from sampan.apiserver.authz.configuration import read_authorization
from sampan.apiserver.config.config_reload import INTERVAL_S
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.server import ApiServer
from sampan.machinery.clock import VirtualClock
from sampan.storage.memory import MemoryBackend
from tests.apiserver.authn.oidc.test_authenticator import HEAD, JWT
from tests.apiserver.authz.rbac_objects import attributes_of

AUTHZ = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: %s, name: a}]\n"
TOKEN = "e30.eyJpc3MiOiJodHRwczovL2kifQ.eA"
"""Says that it comes from https://i."""


async def error_of(server: ApiServer) -> str:
    try:
        await server.security.tokens.authenticate_token(TOKEN)
    except TokenError as fault:
        return str(fault)
    return ""


async def test_changes_take_effect(tmp_path: Path) -> None:
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
        assert await error_of(server) == "invalid bearer token"
        authz.write_text(AUTHZ % "AlwaysAllow")
        authn.write_text(HEAD + JWT)
        await clock.advance(INTERVAL_S)
        assert await server.security.authorizer.is_allowed(attributes_of("get", "pods"))
        assert "oidc: verify token" in await error_of(server)
        authz.write_text(AUTHZ % "Nonsense")
        authn.write_text(HEAD)
        await clock.advance(INTERVAL_S)
        assert await server.security.authorizer.is_allowed(attributes_of("get", "pods"))
        assert await error_of(server) == "invalid bearer token"
