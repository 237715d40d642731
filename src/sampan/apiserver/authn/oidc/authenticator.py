"""Authentication of OIDC tokens. The result for a valid token is cached for some seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sampan.api import limits
from sampan.apiserver.authn.authenticator import AuthenticationResponse
from sampan.apiserver.authn.jwt_keys import issuer_of
from sampan.apiserver.authn.oidc import claim_mapping
from sampan.apiserver.authn.oidc.claim_mapping import Claims
from sampan.apiserver.authn.oidc.distributed_claims import DistributedGroups
from sampan.apiserver.authn.oidc.issuers import JwtIssuer
from sampan.apiserver.authn.oidc.keys import IssuerKeys, verified
from sampan.apiserver.request.call import UserInfo
from sampan.machinery.cel.cost_budget import UNLIMITED_COST, BudgetExceeded, CostBudget
from sampan.machinery.clock import Clock
from sampan.machinery.lru_cache import LruCache
from sampan.machinery.worker_thread import WorkerThread

_KEPT_S = 10
_MOST_KEPT = 10_000
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
        self._kept: LruCache[str, AuthenticationResponse] = LruCache(clock=clock, most=_MOST_KEPT)
        self.replace(issuers)

    def replace(self, issuers: Iterable[JwtIssuer]) -> None:
        """Replace the trusted issuers. The keys of issuers whose discovery document and CA are the same are kept."""
        before = self._by_url
        self._by_url = {
            issuer.url: self._trusted_issuer(issuer, before[issuer.url].keys if _is_same(before, issuer) else None)
            for issuer in issuers
        }
        self._kept = LruCache(clock=self._clock, most=_MOST_KEPT)

    async def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> AuthenticationResponse | None:
        """Return the identity. The audiences of the API do not apply: each issuer has its own."""
        kept = self._kept
        cached = kept.get(token)
        if cached is not None:
            return cached
        entry = self._by_url.get(_issuer_of(token))
        if entry is None:
            return None
        token_claims = await verified(token, entry.issuer, entry.keys)
        now = self._clock.now()
        claim_mapping.check(token_claims, entry.issuer, now)
        whole = await entry.groups.expand(token_claims)
        identity = AuthenticationResponse(await self._user_of(whole, entry.issuer))
        # discarded if the issuers were replaced meanwhile
        kept.keep(token, identity, min(_KEPT_S, token_claims["exp"] - now))
        return identity

    async def _user_of(self, claims: Claims, issuer: JwtIssuer) -> UserInfo:
        """Map the claims to a user; in a worker thread if its expressions would hold the event loop for too long."""
        try:
            return claim_mapping.user_of(claims, issuer, CostBudget(limits.INLINE_CEL_COST))
        except BudgetExceeded:
            return await self._worker.run(claim_mapping.user_of, claims, issuer, UNLIMITED_COST)

    def _trusted_issuer(self, issuer: JwtIssuer, keys: IssuerKeys | None) -> _TrustedIssuer:
        kept = keys or IssuerKeys(issuer=issuer, clock=self._clock)
        return _TrustedIssuer(issuer, kept, DistributedGroups(issuer=issuer, clock=self._clock))


def _is_same(before: dict[str, _TrustedIssuer], issuer: JwtIssuer) -> bool:
    old = before.get(issuer.url)
    return old is not None and (old.issuer.document, old.issuer.ca_pem) == (issuer.document, issuer.ca_pem)


def _issuer_of(token: str) -> str:
    issuer = issuer_of(token)
    return _GOOGLE[1] if issuer == _GOOGLE[0] else issuer
