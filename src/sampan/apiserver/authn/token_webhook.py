"""Webhook token authentication. Results are cached, and concurrent requests with the same token share one review."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sampan.apiserver.authn.authenticator import AuthenticationResponse, TokenError
from sampan.apiserver.request.call import UserInfo, add_authenticated_group
from sampan.apiserver.webhooks.remote_webhook import RemoteReviewer, RemoteWebhookFailed, RetryPolicy
from sampan.host.bounded_cache import ExpiringCache
from sampan.host.clock import Clock
from sampan.machinery.client.access import Access

_CACHE_SIZE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWebhookSettings:
    access: Access = field(repr=False)
    version: Literal["v1", "v1beta1"] = "v1beta1"
    kept_s: float = 120
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)


class TokenWebhook:
    def __init__(self, *, settings: TokenWebhookSettings, audiences: Sequence[str], clock: Clock) -> None:
        """`audiences` are the audiences of this server."""
        self._settings, self._audiences = settings, tuple(audiences)
        self._service = RemoteReviewer(settings.access, retry_policy=settings.retry_policy)
        self._kept: ExpiringCache[bytes, Mapping[str, Any]] = ExpiringCache(clock=clock, max_entries=_CACHE_SIZE)
        self._turns: dict[bytes, _SharedReview] = {}
        self._salt = secrets.token_bytes(16)

    async def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> AuthenticationResponse | None:
        targets = tuple(audiences) or self._audiences
        key = self._key(token, targets)
        status = self._kept.get(key)
        if status is None:
            status = await self._review_once(key, token, targets)
        return authentication_response(status, targets, self._audiences)

    async def close(self) -> None:
        await self._service.close()

    def _key(self, token: str, audiences: Sequence[str]) -> bytes:
        """Return the cache key: a keyed hash, so that tokens are not kept in memory."""
        parts = "\0".join((token, *audiences)).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(parts, key=self._salt, digest_size=32).digest()

    async def _review_once(self, key: bytes, token: str, audiences: Sequence[str]) -> Mapping[str, Any]:
        """Review a token. Requests that arrive during the review wait for its result."""
        turn = self._turns.setdefault(key, _SharedReview())
        turn.callers += 1
        try:
            async with turn.lock:
                if turn.status is None:
                    turn.status = await self._request_review(token, audiences)
                    self._kept.keep(key, turn.status, self._settings.kept_s)
                return turn.status
        finally:
            turn.callers -= 1
            if not turn.callers:
                self._turns.pop(key, None)

    async def _request_review(self, token: str, audiences: Sequence[str]) -> Mapping[str, Any]:
        review = {
            "kind": "TokenReview",
            "apiVersion": f"authentication.k8s.io/{self._settings.version}",
            "metadata": {},
            "spec": {"token": token, "audiences": list(audiences)},
        }
        try:
            return await self._service.status(review)
        except RemoteWebhookFailed as error:
            raise TokenError(str(error)) from error


@dataclass(slots=True)
class _SharedReview:
    """The concurrent requests with one token, which share the result of one review."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    callers: int = 0
    status: Mapping[str, Any] | None = None


def authentication_response(
    status: Mapping[str, Any], audiences: Sequence[str], own: Sequence[str]
) -> AuthenticationResponse | None:
    """Return the identity in the status of a review. A webhook that returns no audiences is assumed to have checked
    those of this server."""
    good_for = status.get("audiences") or own
    valid_audiences = set(good_for)
    common = tuple(word for word in audiences if word in valid_audiences)
    if audiences and not common:
        return None
    if not status.get("authenticated"):
        if status.get("error"):
            raise TokenError(str(status["error"]))
        return None
    user = status.get("user") or {}
    extra = {str(key): tuple(map(str, values or ())) for key, values in (user.get("extra") or {}).items()}
    groups = add_authenticated_group(map(str, user.get("groups") or ()))
    return AuthenticationResponse(
        UserInfo(str(user.get("username") or ""), str(user.get("uid") or ""), groups, extra), common
    )
