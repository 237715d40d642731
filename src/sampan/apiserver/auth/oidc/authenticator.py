"""Tokens of issuers outside the cluster. What a good token said is kept for some seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sampan.apiserver.auth.chain import Identity, TokenFault
from sampan.apiserver.auth.oidc import claims
from sampan.apiserver.auth.oidc.issuers import JwtIssuer
from sampan.apiserver.auth.oidc.keys import IssuerKeys
from sampan.apiserver.auth.signatures import SIGNATURE_ONLY, issuer_of
from sampan.machinery.clock import Clock
from sampan.machinery.kept_answers import KeptAnswers

_KEPT_S = 10
_MOST_KEPT = 10_000
_GOOGLE = ("accounts.google.com", "https://accounts.google.com")
"""How Google's tokens call their issuer, and what it is."""


class OidcTokens:
    def __init__(self, *, issuers: Iterable[JwtIssuer], clock: Clock) -> None:
        self._clock = clock
        self._by_url: dict[str, tuple[JwtIssuer, IssuerKeys]] = {}
        self._kept: KeptAnswers[str, Identity] = KeptAnswers(clock=clock, most=_MOST_KEPT)
        self.replace(issuers)

    def replace(self, issuers: Iterable[JwtIssuer]) -> None:
        """From now on believe these. The keys of those that stay as they were are kept."""
        before = self._by_url
        self._by_url = {
            issuer.url: (issuer, before[issuer.url][1] if _is_same(before, issuer) else self._keys(issuer))
            for issuer in issuers
        }
        self._kept = KeptAnswers(clock=self._clock, most=_MOST_KEPT)

    async def identify(self, token: str, audiences: Sequence[str] = ()) -> Identity | None:
        """Audiences of the API are not the issuers' affair."""
        known = self._kept.get(token)
        if known is not None:
            return known
        found = self._by_url.get(_issuer_of(token))
        if found is None:
            return None
        issuer, keys = found
        said = await self._verified(token, issuer, keys)
        now = self._clock.now()
        claims.check(said, issuer, now)
        identity = Identity(claims.user_of(said, issuer))
        self._kept.keep(token, identity, min(_KEPT_S, said["exp"] - now))
        return identity

    def _keys(self, issuer: JwtIssuer) -> IssuerKeys:
        return IssuerKeys(issuer=issuer, clock=self._clock)

    @staticmethod
    async def _verified(token: str, issuer: JwtIssuer, keys: IssuerKeys) -> dict[str, Any]:
        import jwt

        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError as fault:
            raise TokenFault(f"oidc: verify token: {fault}") from None
        algorithm = str(header.get("alg"))
        if algorithm not in issuer.algorithms:
            raise TokenFault(f"oidc: verify token: signed with unsupported algorithm {algorithm!r}")
        for key in await keys.find(str(header.get("kid") or "")):
            try:
                return jwt.decode(token, key.key, algorithms=[algorithm], options=SIGNATURE_ONLY)
            except (jwt.PyJWTError, TypeError):  # a key of another kind than the algorithm's is refused by its type
                continue
        raise TokenFault("oidc: verify token: failed to verify signature: failed to verify id token signature")


def _is_same(before: dict[str, tuple[JwtIssuer, IssuerKeys]], issuer: JwtIssuer) -> bool:
    old = before.get(issuer.url)
    return old is not None and (old[0].document, old[0].ca_pem) == (issuer.document, issuer.ca_pem)


def _issuer_of(token: str) -> str:
    said = issuer_of(token)
    return _GOOGLE[1] if said == _GOOGLE[0] else said


__all__ = ["OidcTokens"]
