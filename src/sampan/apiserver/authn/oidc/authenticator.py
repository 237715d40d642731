"""Authentication of OIDC tokens. The result for a valid token is cached for some seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sampan.api import limits
from sampan.api.go_compat import gotext
from sampan.apiserver.authn.authenticator import AuthenticationResponse, TokenError
from sampan.apiserver.authn.jwt_keys import issuer_of
from sampan.apiserver.authn.oidc import claim_mapping
from sampan.apiserver.authn.oidc.claim_mapping import Claims
from sampan.apiserver.authn.oidc.issuers import JwtIssuer
from sampan.apiserver.authn.oidc.keys import IssuerKeys, verify_token
from sampan.apiserver.request.call import UserInfo
from sampan.host.bounded_cache import BoundedCache, ExpiringCache
from sampan.host.clock import Clock
from sampan.host.worker_thread import WorkerThread
from sampan.machinery import errors
from sampan.machinery.cel.cost_budget import UNLIMITED_COST, BudgetExceeded, CostBudget
from sampan.machinery.client.access import Access
from sampan.machinery.client.transport import ConnectionFailed, Request

_NAMES, _SOURCES = "_claim_names", "_claim_sources"
_TIMEOUT_S = 30.0
_SIGNER_BYTES = 4 << 10
"""The memory that an issuer and its keys take, roughly."""


class DistributedGroups:
    """Distributed group claims: the token refers to an endpoint (OpenID Connect Core 1.0, 5.6.2), from which another
    token with the groups is fetched."""

    def __init__(self, *, issuer: JwtIssuer, clock: Clock) -> None:
        self._issuer, self._claim, self._clock = issuer, issuer.groups_claim, clock
        self._keys: BoundedCache[str, tuple[JwtIssuer, IssuerKeys]] = BoundedCache(
            self._make_signer, max_entries=64, max_entry_bytes=16 << 10, measure=lambda signer, limit: _SIGNER_BYTES
        )

    async def expand(self, claims: dict[str, Any]) -> dict[str, Any]:
        """Return the claims, with the groups resolved if they are distributed."""
        try:
            source = source_of(claims, self._claim) if self._claim else None
            if source is None:
                return claims
            return {**claims, self._claim: await self._fetch_claim(source)}
        except TokenError as error:
            raise TokenError(f"oidc: could not expand distributed claims: {error}") from None

    async def _fetch_claim(self, source: Mapping[str, Any]) -> Any:
        url, claim = str(source["endpoint"]), self._claim
        token = await self._token(url, str(source.get("access_token") or ""))
        issuer, keys = self._signer(issuer_of(token), url)
        claims = await verify_token(token, issuer, keys)
        claim_mapping.check(claims, issuer, self._clock.now())
        if claim not in claims:
            message = f"jwt returned by distributed claim endpoint {gotext.quote(url)} did not contain claim: {claim}"
            raise TokenError(message)
        return claims[claim]

    def _signer(self, url: str, endpoint: str) -> tuple[JwtIssuer, IssuerKeys]:
        """Return the issuer and keys of the fetched token. Any issuer that it names is trusted, because the original
        issuer vouches for the endpoint."""
        if not url:
            claim = gotext.quote(self._claim)
            raise TokenError(f"getting untrusted issuer from endpoint {endpoint} failed for claim {claim}")
        return self._keys[url]

    def _make_signer(self, url: str) -> tuple[JwtIssuer, IssuerKeys]:
        issuer = replace(self._issuer, url=url, discovery_url="")
        return issuer, IssuerKeys(issuer=issuer, clock=self._clock)

    async def _token(self, url: str, access_token: str) -> str:
        from sampan.machinery.client.http import HttpTransport

        access = Access(server=url, ca_pem=self._issuer.ca_pem, token=access_token)
        try:
            async with asyncio.timeout(_TIMEOUT_S), HttpTransport(access) as transport:
                response = await transport.send(Request(method="GET", path="", headers={}))
                return response.body().decode("ascii", "replace").strip()
        except (ConnectionFailed, errors.ApiError, TimeoutError, ValueError) as error:
            reason = str(error) or "timeout"
            raise TokenError(f"while getting distributed claim {gotext.quote(self._claim)}: {reason}") from None


def source_of(claims: Mapping[str, Any], claim: str) -> Mapping[str, Any] | None:
    """Return the source of a distributed claim; None if the claim is in the token or in no source."""
    if claim in claims or _NAMES not in claims:
        return None
    names, sources = claims[_NAMES], claims.get(_SOURCES)
    if not isinstance(names, Mapping):
        raise TokenError("oidc: error parsing distributed claim names: want an object")
    if sources is None:
        raise TokenError("oidc: no claim sources")
    if not isinstance(sources, Mapping):
        raise TokenError("oidc: could not parse claim sources: want an object")
    if claim not in names:
        return None
    name = names[claim]
    source = sources.get(name) if isinstance(name, str) else None
    if not isinstance(source, Mapping):
        raise TokenError(f"id token _claim_names contained a source {name} missing in _claims_sources")
    return source if source.get("endpoint") else None


_CACHE_TTL_S = 10
_CACHE_SIZE = 10_000
_GOOGLE = ("accounts.google.com", "https://accounts.google.com")
"""The issuer in Google's tokens, and the URL that it stands for."""


class _TrustedIssuer(NamedTuple):
    issuer: JwtIssuer
    keys: IssuerKeys
    groups: DistributedGroups


class OidcTokens:
    def __init__(self, *, issuers: Iterable[JwtIssuer], clock: Clock) -> None:
        self._clock = clock
        self._worker = WorkerThread("sampan-claim-expressions")
        self._by_url: dict[str, _TrustedIssuer] = {}
        self._kept: ExpiringCache[str, AuthenticationResponse] = ExpiringCache(clock=clock, max_entries=_CACHE_SIZE)
        self.replace(issuers)

    def replace(self, issuers: Iterable[JwtIssuer]) -> None:
        """Replace the trusted issuers. The keys of issuers whose discovery document and CA are the same are kept."""
        before = self._by_url
        self._by_url = {
            issuer.url: self._make_trusted_issuer(issuer, before[issuer.url].keys if _is_same(before, issuer) else None)
            for issuer in issuers
        }
        self._kept = ExpiringCache(clock=self._clock, max_entries=_CACHE_SIZE)

    async def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> AuthenticationResponse | None:
        """Return the identity. The audiences of the API do not apply: each issuer has its own."""
        cached_users = self._kept
        cached = cached_users.get(token)
        if cached is not None:
            return cached
        entry = self._by_url.get(_issuer_of(token))
        if entry is None:
            return None
        token_claims = await verify_token(token, entry.issuer, entry.keys)
        now = self._clock.now()
        claim_mapping.check(token_claims, entry.issuer, now)
        whole = await entry.groups.expand(token_claims)
        identity = AuthenticationResponse(await self._user_of(whole, entry.issuer))
        # discarded if the issuers were replaced meanwhile
        cached_users.keep(token, identity, min(_CACHE_TTL_S, token_claims["exp"] - now))
        return identity

    async def _user_of(self, claims: Claims, issuer: JwtIssuer) -> UserInfo:
        """Map the claims to a user; in a worker thread if its expressions would hold the event loop for too long."""
        try:
            return claim_mapping.user_of(claims, issuer, CostBudget(limits.INLINE_CEL_COST))
        except BudgetExceeded:
            return await self._worker.run(claim_mapping.user_of, claims, issuer, UNLIMITED_COST)

    def _make_trusted_issuer(self, issuer: JwtIssuer, keys: IssuerKeys | None) -> _TrustedIssuer:
        issuer_keys = keys or IssuerKeys(issuer=issuer, clock=self._clock)
        return _TrustedIssuer(issuer, issuer_keys, DistributedGroups(issuer=issuer, clock=self._clock))


def _is_same(before: dict[str, _TrustedIssuer], issuer: JwtIssuer) -> bool:
    old = before.get(issuer.url)
    return old is not None and (old.issuer.document, old.issuer.ca_pem) == (issuer.document, issuer.ca_pem)


def _issuer_of(token: str) -> str:
    issuer = issuer_of(token)
    return _GOOGLE[1] if issuer == _GOOGLE[0] else issuer
