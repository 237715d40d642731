"""OpenID discovery for service account tokens: the issuer and its keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sampan.api.codec import json as json_codec
from sampan.apiserver.auth.account_keys import AccountKey
from sampan.apiserver.call import Call
from sampan.apiserver.negotiation import JSON
from sampan.apiserver.results import Answer, BytesAnswer, no_such_path
from sampan.machinery import errors

CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
_CACHED = {"Cache-Control": "public, max-age=3600"}


class OpenId:
    def __init__(
        self, *, issuer: str, keys: Sequence[AccountKey], address: Callable[[], str], keys_url: str = ""
    ) -> None:
        """`keys_url` is where relying parties find the keys, if not at this server."""
        self._issuer, self._keys, self._address, self._keys_url = issuer, keys, address, keys_url

    async def handle(self, call: Call) -> Answer:
        if call.path not in (CONFIGURATION, KEYS):
            return no_such_path()
        if call.method != "GET":
            raise errors.generic(405)
        if call.path == KEYS:
            body = json_codec.encode({"keys": [key.jwk() for key in self._keys]})
            return BytesAnswer(body, "application/jwk-set+json", headers=_CACHED)
        return BytesAnswer(json_codec.encode(self._configuration()), JSON, headers=_CACHED)

    def _configuration(self) -> dict[str, object]:
        return {
            "issuer": self._issuer,
            "jwks_uri": self._keys_url or f"https://{self._address()}{KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({key.algorithm for key in self._keys}),
        }
