"""Flags of the API server for external authentication and authorization, and for TLS."""

import dataclasses
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
from aiohttp import ClientError, ClientSession, TCPConnector, web
from cryptography.hazmat.primitives.asymmetric import ec

from sampan.apiserver.config.server_config import TlsFiles
from sampan.apiserver.server import ApiServer
from sampan.cli import up
from sampan.cli.flags.api_server import server_config
from sampan.cluster.pki import CA, SERVER
from sampan.host.clock import RealClock
from sampan.storage.memory import MemoryBackend
from tests.apiserver.authn.https_service import HttpsEndpoint, https_endpoint

KEY = ec.generate_private_key(ec.SECP256R1())
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
PODS = "/api/v1/namespaces/default/pods"


class Service:
    """A webhook that reviews tokens and access, and an OIDC issuer."""

    url = ""

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response(self._document(request.path))
        review = await request.json()
        responses = {"TokenReview": _token_review_status, "SubjectAccessReview": _access_review_status}
        return web.json_response({**review, "status": responses[review["kind"]](review["spec"])})

    def _document(self, path: str) -> dict[str, Any]:
        if path.endswith("openid-configuration"):
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        return {"keys": [{**jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "one"}]}


def _token_review_status(spec: dict[str, Any]) -> dict[str, Any]:
    is_known = spec["token"] == "hooked"
    return {"authenticated": is_known, "user": {"username": "hook", "groups": ["hooked"]}}


def _access_review_status(spec: dict[str, Any]) -> dict[str, Any]:
    attributes = spec.get("resourceAttributes", {})
    is_pods = attributes.get("resource") == "pods"
    return {
        "allowed": is_pods and attributes["verb"] == "list",
        "denied": is_pods and attributes["verb"] == "deletecollection",
    }


class Client:
    def __init__(self, server: ApiServer, endpoint: HttpsEndpoint) -> None:
        self._url, self._ca = f"https://127.0.0.1:{server.secure_port}", endpoint.pki.certificate(CA)
        self.max_tls_version = ssl.TLSVersion.MAXIMUM_SUPPORTED
        """The newest version of TLS that the client offers."""

    async def code(self, method: str, path: str, token: str = "") -> int:
        return (await self._send(method, path, token))[0]

    async def whoami(self, token: str) -> Any:
        code, body = await self._send("POST", WHOAMI, token)
        return body["status"]["userInfo"]["username"] if code == 201 else code

    async def _send(self, method: str, path: str, token: str) -> tuple[int, Any]:
        context = ssl.create_default_context(cafile=str(self._ca))
        context.maximum_version = self.max_tls_version
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        body: dict[str, Any] | None = {} if method == "POST" else None
        async with ClientSession(connector=TCPConnector(ssl=context)) as session:
            response = await session.request(method, self._url + path, json=body, headers=headers)
            is_json = response.content_type == "application/json"
            return response.status, await response.json() if is_json else await response.text()


@asynccontextmanager
async def api_server(endpoint: HttpsEndpoint, *flags: str) -> AsyncIterator[Client]:
    parameters = up.command.make_context("up", [*flags, "--bind-address=127.0.0.1"]).params
    pki = endpoint.pki
    tls = TlsFiles(certificate=pki.certificate(SERVER), key=pki.key(SERVER), client_ca=pki.certificate(CA))
    config = server_config({**parameters, "secure_port": 1}, tls=tls)
    config = dataclasses.replace(config, any_secure_port=True, advertise_address="192.0.2.1")
    async with (
        MemoryBackend(clock=RealClock()) as backend,
        ApiServer(config=config, backend=backend, clock=RealClock()) as server,
    ):
        yield Client(server, endpoint)


async def test_flags_configure_authentication_and_authorization_webhooks(tmp_path: Path) -> None:
    async with https_endpoint(tmp_path, Service().respond) as endpoint:
        file = endpoint.kubeconfig()
        flags = (
            f"--authentication-token-webhook-config-file={file}",
            f"--authorization-webhook-config-file={file}",
            "--authorization-webhook-version=v1",
            "--authorization-mode=Node,Webhook,RBAC",
        )
        async with api_server(endpoint, *flags) as client:
            assert await client.whoami("hooked") == "hook", "RBAC allows requests on which the webhook has no opinion"
            assert await client.whoami("unknown") == 401
            assert await client.code("GET", PODS, "hooked") == 200
            assert await client.code("DELETE", PODS, "hooked") == 403
            assert await client.code("GET", f"{PODS}/none", "hooked") == 403


async def test_authentication_config_flag_sets_jwt_issuer_and_anonymous_paths(tmp_path: Path) -> None:
    service = Service()
    async with https_endpoint(tmp_path, service.respond, wants_certificate=False) as endpoint:
        service.url = endpoint.url
        ca = "".join(f"      {line}\n" for line in endpoint.ca.decode().splitlines())
        file = tmp_path / "authn.yaml"
        file.write_text(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
            "anonymous: {enabled: true, conditions: [{path: /livez}]}\n"
            f"jwt:\n- issuer:\n    url: {endpoint.url}\n    audiences: [kube]\n    certificateAuthority: |\n{ca}"
            "  claimMappings:\n    username: {claim: sub, prefix: 'oidc:'}\n"
        )
        async with api_server(endpoint, f"--authentication-config={file}") as client:
            assert await client.whoami(_token_of(endpoint.url)) == "oidc:ann"
            assert await client.whoami(_token_of(endpoint.url, aud="other")) == 401
            assert await client.code("GET", "/livez") == 200
            assert await client.code("GET", "/readyz") == 401


def _token_of(url: str, **more: Any) -> str:
    fields = {"iss": url, "sub": "ann", "aud": "kube", "exp": time.time() + 600, **more}
    return jwt.encode(fields, KEY, algorithm="ES256", headers={"kid": "one"})


async def test_oidc_flags_configure_a_jwt_issuer(tmp_path: Path) -> None:
    service = Service()
    async with https_endpoint(tmp_path, service.respond, wants_certificate=False) as endpoint:
        service.url = endpoint.url
        flags = (
            f"--oidc-issuer-url={endpoint.url}",
            "--oidc-client-id=kube",
            f"--oidc-ca-file={endpoint.pki.certificate(CA)}",
            "--oidc-signing-algs=ES256",
            "--oidc-required-claim=hd=example.com",
        )
        async with api_server(endpoint, *flags) as client:
            assert await client.whoami(_token_of(endpoint.url, hd="example.com")) == f"{endpoint.url}#ann"
            assert await client.whoami(_token_of(endpoint.url)) == 401


async def test_tls_min_version_flag_rejects_older_tls_versions(tmp_path: Path) -> None:
    async def accepts(client: Client, version: ssl.TLSVersion) -> bool:
        client.max_tls_version = version
        try:
            return await client.code("GET", "/healthz") == 200
        except ClientError:
            return False

    async with https_endpoint(tmp_path, Service().respond) as endpoint:
        for flags, expected in (((), [True, True]), (("--tls-min-version=VersionTLS13",), [False, True])):
            async with api_server(endpoint, *flags) as client:
                versions = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
                assert [await accepts(client, version) for version in versions] == expected


def test_flags_disable_fairness_and_token_extension() -> None:
    flags = ["--enable-priority-and-fairness=false", "--service-account-extend-token-expiration=false"]
    parameters = up.command.make_context("up", flags).params
    config = server_config(parameters, tls=None)
    assert (config.has_fairness, config.extends_account_tokens) == (False, False)
    defaults = server_config(up.command.make_context("up", []).params, tls=None)
    assert (defaults.has_fairness, defaults.extends_account_tokens) == (True, True)
