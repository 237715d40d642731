"""Delegated authentication and authorization by the API server, for components that serve a port of their own."""

from __future__ import annotations

from dataclasses import dataclass

from sampan.api.types.authentication_v1 import TokenReview, TokenReviewSpec, UserInfo
from sampan.api.types.authorization_v1 import (
    NonResourceAttributes,
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from sampan.host.bounded_cache import ExpiringCache
from sampan.host.clock import Clock
from sampan.machinery.client import Client

ANONYMOUS = UserInfo(username="system:anonymous", groups=["system:unauthenticated"])

_CACHE_SIZE = 1000
_CACHE_TTL_S = 10.0


@dataclass(frozen=True, slots=True)
class AccessDecision:
    is_allowed: bool
    reason: str = ""


class DelegatedAuth:
    """Sends TokenReviews and SubjectAccessReviews and caches the results for ten seconds.

    Methods raise the client's exceptions when the API server cannot be reached.
    """

    def __init__(self, *, client: Client, clock: Clock) -> None:
        self._tokens = client.for_kind(TokenReview)
        self._reviews = client.for_kind(SubjectAccessReview)
        self._users: ExpiringCache[str, tuple[UserInfo | None]] = ExpiringCache(clock=clock, max_entries=_CACHE_SIZE)
        self._decisions: ExpiringCache[tuple[object, ...], AccessDecision] = ExpiringCache(
            clock=clock, max_entries=_CACHE_SIZE
        )

    async def user_of(self, token: str) -> UserInfo | None:
        """Return the user that the bearer token authenticates, or None if the token is invalid."""
        cached = self._users.get(token)
        if cached is not None:
            return cached[0]
        review = await self._tokens.create(TokenReview(spec=TokenReviewSpec(token=token)))
        user = review.status.user if review.status.authenticated else None
        self._users.keep(token, (user,), _CACHE_TTL_S)
        return user

    async def may_get(self, user: UserInfo, verb: str, path: str) -> AccessDecision:
        """Whether the API server authorizes the user to send a request for this non-resource URL."""
        return await self._may(user, SubjectAccessReviewSpec(nonResourceAttributes=_path(verb, path)), verb, path)

    async def may_use(self, user: UserInfo, attributes: ResourceAttributes) -> AccessDecision:
        key = (attributes.verb, attributes.group, attributes.resource, attributes.subresource, attributes.name)
        return await self._may(user, SubjectAccessReviewSpec(resourceAttributes=attributes), *key, attributes.namespace)

    async def _may(self, user: UserInfo, spec: SubjectAccessReviewSpec, *attributes: str) -> AccessDecision:
        key = (user.username, user.uid, tuple(user.groups), *attributes)
        cached = self._decisions.get(key)
        if cached is not None:
            return cached
        spec.user, spec.uid, spec.groups, spec.extra = user.username, user.uid, user.groups, user.extra
        status = (await self._reviews.create(SubjectAccessReview(spec=spec))).status
        decision = AccessDecision(status.allowed, status.reason)
        self._decisions.keep(key, decision, _CACHE_TTL_S)
        return decision


def _path(verb: str, path: str) -> NonResourceAttributes:
    return NonResourceAttributes(verb=verb, path=path)
