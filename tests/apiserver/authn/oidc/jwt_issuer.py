"""An OIDC issuer that tests serve, and configuration files for --authentication-config."""

from pathlib import Path
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from sampan.apiserver.authn.oidc import JwtIssuer
from sampan.host.clock import VirtualClock
from tests.apiserver.authn.https_service import HttpsEndpoint

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())


class Issuer:
    """An issuer that serves its discovery document and keys, records the requests, and can be down."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {"one": RSA}
        self.requests: list[str] = []
        self.is_down = False
        self.url = ""
        self.issuer_in_document = ""
        """The issuer that the discovery document names, if it is not this one."""

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request.path)
        if self.is_down:
            return web.Response(status=503)
        if request.path.endswith("/openid-configuration"):
            return web.json_response({"issuer": self.issuer_in_document or self.url, "jwks_uri": f"{self.url}/keys"})
        return web.json_response({"keys": [_jwk(name, key) for name, key in self.keys.items()]})

    def token(self, clock: VirtualClock, name: str = "one", **more: Any) -> str:
        fields = {"iss": self.url, "sub": "ann", "aud": "kube", "exp": clock.now() + 600, **more}
        algorithm = "ES256" if self.keys[name] is CURVE else "RS256"
        return jwt.encode(fields, self.keys[name], algorithm=algorithm, headers={"kid": name})


def _jwk(name: str, key: Any) -> dict[str, Any]:
    algorithm = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig"}


def issuer_of(endpoint: HttpsEndpoint, **more: Any) -> JwtIssuer:
    return JwtIssuer(url=endpoint.url, audiences=("kube",), ca_pem=endpoint.ca, username_prefix="oidc:", **more)


HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"


JWT = """jwt:
- issuer: {url: 'https://i', audiences: [a, b], audienceMatchPolicy: MatchAny}
  claimMappings:
    username: {claim: sub, prefix: ''}
    groups: {claim: roles, prefix: 'r:'}
    uid: {claim: id}
  claimValidationRules: [{claim: hd, requiredValue: example.com}]
"""


def write_config(directory: Path, text: str) -> Path:
    file = directory / "authn.yaml"
    file.write_text(text)
    return file
