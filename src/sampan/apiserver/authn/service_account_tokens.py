"""Bound service account tokens: signed by a trusted key, not expired, issued for an accepted audience, and valid as
long as the objects that they are bound to exist. The signature is verified once and cached; everything else is checked
on each request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from sampan.apiserver.authn.authenticator import AuthenticationResponse, TokenError
from sampan.apiserver.authn.jwt_keys import VerificationKey, issuer_of, verify_token
from sampan.apiserver.authz.rbac.policy_rules import quote_list
from sampan.apiserver.request.call import service_account_user, service_account_username
from sampan.host.bounded_cache import BoundedCache
from sampan.host.clock import Clock

if TYPE_CHECKING:
    from sampan.apiserver.registry.registry import Registry

_EXTRA = "authentication.kubernetes.io/"
_LEEWAY_S = 60
"""The tolerated clock skew."""
_DELETION_LEEWAY_S = 60
"""How long after its deletion timestamp an object still validates the tokens bound to it."""
_INVALIDATED = "service account token has been invalidated"


class _ObjectReference(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _KubernetesClaims(msgspec.Struct):
    namespace: str = ""
    serviceaccount: _ObjectReference = msgspec.field(default_factory=_ObjectReference)
    pod: _ObjectReference | None = None
    secret: _ObjectReference | None = None
    node: _ObjectReference | None = None


class ServiceAccountClaims(msgspec.Struct):
    iss: str = ""
    sub: str = ""
    aud: list[str] | str = msgspec.field(default_factory=list)
    exp: float = 0
    nbf: float = 0
    jti: str = ""
    own: _KubernetesClaims | None = msgspec.field(default=None, name="kubernetes.io")

    @property
    def audiences(self) -> list[str]:
        return [self.aud] if isinstance(self.aud, str) else self.aud


class TokenObjectGetter(Protocol):
    """Access to the objects that tokens are bound to."""

    async def find(self, kind: str, namespace: str, name: str) -> Any | None:
        """Return the object from the cache, or None if it certainly does not exist."""


class RegistryObjectGetter:
    def __init__(self, *, registry: Registry) -> None:
        self._registry = registry

    async def find(self, kind: str, namespace: str, name: str) -> Any | None:
        store = self._registry.open_store_of("", "v1", kind)
        obj = store.peek(namespace, name)
        if obj is not None:
            return obj
        item = await store.cacher.get(namespace, name)
        return item.object(store.codec.decode) if item is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountTokensConfig:
    issuer: str
    audiences: Sequence[str]
    """The audiences of this server."""
    keys: Sequence[VerificationKey]
    other_issuers: Sequence[str] = ()
    """Further accepted issuers."""


class ServiceAccountTokens:
    def __init__(self, *, config: ServiceAccountTokensConfig, objects: TokenObjectGetter, clock: Clock) -> None:
        self._config, self._objects, self._clock = config, objects, clock
        self._verified: BoundedCache[str, ServiceAccountClaims] = BoundedCache(
            max_entries=10_000, max_entry_bytes=8 << 10, max_bytes=16 << 20
        )

    async def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> AuthenticationResponse | None:
        claims = self._verified.get(token)
        if claims is None:
            claims = self._read(token)
            if claims is None:
                return None
            self._verified.keep(token, claims)
        targets = audiences or self._config.audiences
        accepted = set(targets)
        common = [word for word in claims.audiences if word in accepted]
        if not common:
            actual, expected = quote_list(claims.audiences), quote_list(targets)
            raise TokenError(f"token audiences {actual} is invalid for the target audiences {expected}")
        self._check_time(claims)
        return AuthenticationResponse(await self._user(claims), tuple(common))

    def _read(self, token: str) -> ServiceAccountClaims | None:
        """Return the claims of a token of an accepted issuer, None for any other token. Raise `TokenError` if the
        signature or the claims are invalid."""
        issuer = issuer_of(token)
        if issuer != self._config.issuer and issuer not in self._config.other_issuers:
            return None
        try:
            return msgspec.convert(verify_token(token, self._config.keys), ServiceAccountClaims)
        except msgspec.ValidationError as error:
            raise TokenError(str(error)) from None

    def _check_time(self, claims: ServiceAccountClaims) -> None:
        now = self._clock.now()
        if now > claims.exp + _LEEWAY_S:
            raise TokenError("service account token has expired")
        if now < claims.nbf - _LEEWAY_S:
            raise TokenError("service account token is not valid yet")

    async def _user(self, claims: ServiceAccountClaims) -> Any:
        own = claims.own
        if own is None or claims.sub != service_account_username(own.namespace, own.serviceaccount.name):
            raise TokenError("service account token claims could not be validated due to unexpected private claim")
        await self._require("ServiceAccount", own.namespace, own.serviceaccount)
        if own.secret is not None:
            await self._require("Secret", own.namespace, own.secret)
        if own.pod is not None:
            await self._require("Pod", own.namespace, own.pod)
        elif own.node is not None:
            await self._require("Node", "", own.node)
        return service_account_user(own.namespace, own.serviceaccount.name, own.serviceaccount.uid, _extra(claims, own))

    async def _require(self, kind: str, namespace: str, ref: _ObjectReference) -> None:
        obj = await self._objects.find(kind, namespace, ref.name)
        if obj is None or obj.metadata.uid != ref.uid or self._is_over(obj.metadata):
            raise TokenError(_INVALIDATED)

    def _is_over(self, meta: Any) -> bool:
        from sampan.api.values import times

        if meta.deletionTimestamp is None:
            return False
        return times.parse_time(meta.deletionTimestamp) < self._clock.now() - _DELETION_LEEWAY_S


def _extra(claims: ServiceAccountClaims, own: _KubernetesClaims) -> Mapping[str, tuple[str, ...]]:
    extra = {"credential-id": f"JTI={claims.jti}"} if claims.jti else {}
    for kind, ref in (("pod", own.pod), ("node", own.node)):
        if ref is not None:
            extra[f"{kind}-name"] = ref.name
            if ref.uid:
                extra[f"{kind}-uid"] = ref.uid
    return {_EXTRA + key: (value,) for key, value in extra.items()}
