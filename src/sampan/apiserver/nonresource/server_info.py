"""Documents about the server: the list of all paths, /version, and OpenID discovery for service account tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sampan.api.codec import json as json_codec
from sampan.api.feature_gates import FeatureGates
from sampan.api.scheme import Scheme
from sampan.apiserver.authn.jwt_keys import VerificationKey
from sampan.apiserver.nonresource.health import HealthHandler
from sampan.apiserver.request import negotiation
from sampan.apiserver.request.call import Call
from sampan.apiserver.request.negotiation import JSON
from sampan.apiserver.response.renderer import pretty
from sampan.apiserver.response.responses import ApiResponse, RawResponse, path_not_found
from sampan.machinery import errors
from sampan.machinery.telemetry.build_info import info

_ALWAYS = ("/api", "/apis", "/apis/", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version")


class IndexHandler:
    def __init__(self, *, scheme: Scheme, health: HealthHandler, more: Sequence[str] = ()) -> None:
        """`more` are paths that not every server has."""
        self._scheme, self._health, self._more = scheme, health, more

    async def handle(self, call: Call) -> ApiResponse:
        if call.path != "/":
            return path_not_found()
        return RawResponse(pretty(json_codec.encode({"paths": self._paths()})), JSON)

    def _paths(self) -> list[str]:
        paths = {*_ALWAYS, *self._more}
        for group in self._scheme.groups():
            start = f"/apis/{group}" if group else "/api"
            paths |= {start, *(f"{start}/{version}" for version in self._scheme.versions(group))}
        for path in self._health.paths.values():
            paths |= {f"/{path.path}", *(f"/{path.path}/{check.name}" for check in path.checks())}
        return sorted(paths)


class VersionHandler:
    def __init__(self, gates: FeatureGates) -> None:
        self._document = pretty(json_codec.encode(info(gates.level, gates.min_compatibility_level)))

    async def handle(self, call: Call) -> ApiResponse:
        if call.path.strip("/") != "version":
            return path_not_found()
        if call.method != "GET":
            raise errors.generic(405)
        negotiation.routes(call.headers.get("Accept", ""), (JSON,))
        return RawResponse(self._document, JSON)


CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
_CACHED = {"Cache-Control": "public, max-age=3600"}


class OpenIdHandler:
    def __init__(
        self, *, issuer: str, keys: Sequence[VerificationKey], address: Callable[[], str], keys_url: str = ""
    ) -> None:
        """`keys_url` is where relying parties find the keys, if not at this server."""
        self._issuer, self._keys, self._address, self._keys_url = issuer, keys, address, keys_url

    async def handle(self, call: Call) -> ApiResponse:
        if call.path not in (CONFIGURATION, KEYS):
            return path_not_found()
        if call.method != "GET":
            raise errors.generic(405)
        if call.path == KEYS:
            body = json_codec.encode({"keys": [key.jwk() for key in self._keys]})
            return RawResponse(body, "application/jwk-set+json", headers=_CACHED)
        return RawResponse(json_codec.encode(self._configuration()), JSON, headers=_CACHED)

    def _configuration(self) -> dict[str, object]:
        return {
            "issuer": self._issuer,
            "jwks_uri": self._keys_url or f"https://{self._address()}{KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({key.algorithm for key in self._keys}),
        }
