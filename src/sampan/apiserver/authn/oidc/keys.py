"""The signing keys of an OIDC issuer, and the verification of signatures with them.

Keys are fetched when first needed and for an unknown key ID, with a rate limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.apiserver.authn.authenticator import TokenError
from sampan.apiserver.authn.jwt_keys import SIGNATURE_ONLY
from sampan.apiserver.authn.oidc.issuers import JwtIssuer
from sampan.host.backoff import Backoff, RetryDelays
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client.access import Access
from sampan.machinery.client.transport import ConnectionFailed, Request

log = logging.getLogger(__name__)

_REFRESH_S = 2.0
"""The minimum interval between fetches for an unknown key ID."""
_BACKOFF = Backoff(1.0, 30.0)
_TIMEOUT_S = 30.0
_NOT_READY = "oidc: authenticator not initialized"


@dataclass(frozen=True, slots=True)
class IssuerKey:
    id: str
    key: Any
    """A public key object of the cryptography package."""


class IssuerKeys:
    def __init__(self, *, issuer: JwtIssuer, clock: Clock) -> None:
        self._issuer, self._clock = issuer, clock
        self._keys: Sequence[IssuerKey] = ()
        self._address = ""
        """The JWKS URL, once the discovery document has been fetched."""
        self._fetched_at, self._retry_at = float("-inf"), float("-inf")
        self._delays = RetryDelays(_BACKOFF)
        self._turn = asyncio.Lock()

    async def find(self, name: str) -> Sequence[IssuerKey]:
        """Return the keys that may have signed a token with this key ID; all keys for "". Concurrent requests share one
        fetch: the keys are checked again once the lock is held. Raise `TokenError` while the discovery document could
        not be fetched."""
        keys = self._select_keys(name)
        if not keys:
            async with self._turn:
                keys = self._select_keys(name)
                if not keys and self._may_fetch():
                    await self._fetch()
                    keys = self._select_keys(name)
        if not keys and not self._address:
            raise TokenError(_NOT_READY)
        return keys

    def _select_keys(self, name: str) -> Sequence[IssuerKey]:
        return [key for key in self._keys if key.id == name] if name else self._keys

    def _may_fetch(self) -> bool:
        now = self._clock.monotonic()
        return now >= self._retry_at and now - self._fetched_at >= _REFRESH_S

    async def _fetch(self) -> None:
        """Fetch the keys. After a failure the previous keys are kept, and the pause before the next attempt doubles."""
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                self._address = self._address or await self._discover()
                self._keys = _read(await _get(self._address, self._issuer.ca_pem))
        except (ConnectionFailed, errors.ApiError, _InvalidIssuerResponse, TimeoutError) as error:
            log.warning("cannot fetch the signing keys of OIDC issuer %s: %s", self._issuer.url, error or "timeout")
            self._retry_at = self._clock.monotonic() + self._delays.next_s()
        else:
            self._fetched_at = self._clock.monotonic()
            self._delays.reset()

    async def _discover(self) -> str:
        document = await _get(self._issuer.document, self._issuer.ca_pem)
        if document.get("issuer") != self._issuer.url:
            raise _InvalidIssuerResponse(f"the discovery document names another issuer, {document.get('issuer')!r}")
        address = document.get("jwks_uri")
        if not isinstance(address, str) or not address.startswith("https://"):
            raise _InvalidIssuerResponse("the discovery document has no jwks_uri with scheme https")
        return address


class _InvalidIssuerResponse(ValueError):
    """A response of the issuer is invalid."""


async def _get(url: str, ca_pem: bytes) -> dict[str, Any]:
    from sampan.machinery.client.http import HttpTransport

    async with HttpTransport(Access(server=url, ca_pem=ca_pem)) as transport:
        response = await transport.send(Request(method="GET", path="", headers={"Accept": "application/json"}))
    try:
        return msgspec.json.decode(response.body(), type=dict[str, Any])
    except JSON_ERRORS as error:
        raise _InvalidIssuerResponse(f"{url}: {error}") from None


def _read(jwks: dict[str, Any]) -> list[IssuerKey]:
    """Return the signing keys of a JWKS. Keys of other types or uses are ignored."""
    import jwt

    keys = []
    for entry in jwks.get("keys") or ():
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or entry.get("kty") not in ("RSA", "EC"):
            continue
        try:
            keys.append(IssuerKey(str(entry.get("kid", "")), jwt.PyJWK(entry).key))
        except jwt.PyJWTError as error:
            log.warning("ignoring an unusable signing key of an OIDC issuer: %s", error)
    if not keys:
        raise _InvalidIssuerResponse("the issuer has no usable signing keys")
    return keys


async def verify_token(token: str, issuer: JwtIssuer, keys: IssuerKeys) -> dict[str, Any]:
    """Return the claims. Raise `TokenError` if no key of the issuer verifies the signature."""
    import jwt

    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError as error:
        raise TokenError(f"oidc: verify token: {error}") from None
    algorithm = str(header.get("alg"))
    if algorithm not in issuer.algorithms:
        raise TokenError(f"oidc: verify token: signed with unsupported algorithm {algorithm!r}")
    for key in await keys.find(str(header.get("kid") or "")):
        try:
            return jwt.decode(token, key.key, algorithms=[algorithm], options=SIGNATURE_ONLY)
        except (jwt.PyJWTError, TypeError):  # a key of another type than the algorithm's raises TypeError
            continue
    raise TokenError("oidc: verify token: failed to verify signature: failed to verify id token signature")
