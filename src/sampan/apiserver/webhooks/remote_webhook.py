"""Webhook clients for services outside of the cluster, with retries: token and access reviews, and audit events."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.machinery import errors
from sampan.machinery.client.access import Access, AccessError
from sampan.machinery.client.transport import ConnectionFailed, Request

if TYPE_CHECKING:
    from sampan.machinery.client.http import HttpTransport

_RANDOM = random.Random()
"""A private random number generator, because tests seed the shared one."""

log = logging.getLogger(__name__)

_GROWTH, _JITTER = 1.5, 0.2
_JSON = {"Content-Type": "application/json", "Accept": "application/json"}


class RemoteWebhookFailed(Exception):
    """The webhook did not respond, or its response is not the expected one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The timeout and retries of one review."""

    timeout_s: float = 30
    """The timeout of one attempt."""
    attempts: int = 5
    pause_s: float = 0.5
    """The pause before the second attempt; it grows with every further attempt. A longer Retry-After of the webhook
    replaces it, up to `timeout_s`."""
    retries_every_error: bool = False
    """Whether any error is retried, and not only errors that are likely to be temporary."""


class RemoteWebhook:
    """A client of one webhook. Its connections are opened with the first request and kept alive."""

    def __init__(self, access: Access, *, retry_policy: RetryPolicy | None = None) -> None:
        self._access, self._retry_policy = access, retry_policy or RetryPolicy()
        self._transport: HttpTransport | None = None

    async def post(self, body: bytes, *, attempts: int | None = None) -> bytes:
        """Return the body of the response. Raise RemoteWebhookFailed if all attempts fail; their number is that of the
        retry policy unless `attempts` is set."""
        pause_s, count = self._retry_policy.pause_s, attempts or self._retry_policy.attempts
        for attempt in range(1, count + 1):
            try:
                return await self._send(body)
            except (ConnectionFailed, errors.ApiError, AccessError, TimeoutError) as error:
                is_retriable = self._retry_policy.retries_every_error or _is_retriable(error)
                if attempt == count or not is_retriable:
                    raise RemoteWebhookFailed(str(error) or "timeout") from error
                requested_s = error.retry_after_s if isinstance(error, errors.ApiError) else 0
                retry_after_s = min(requested_s, self._retry_policy.timeout_s)
            await asyncio.sleep(max(retry_after_s, pause_s * (1 + _RANDOM.random() * _JITTER)))
            pause_s *= _GROWTH
        raise RemoteWebhookFailed("no attempt was made to call the webhook")

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.close()
            self._transport = None

    async def _send(self, body: bytes) -> bytes:
        if self._transport is None:
            from sampan.machinery.client.http import HttpTransport

            self._transport = HttpTransport(self._access)
        async with asyncio.timeout(self._retry_policy.timeout_s):
            response = await self._transport.send(Request(method="POST", path="", headers=_JSON, body=body))
        return response.body()


class RemoteReviewer(RemoteWebhook):
    async def status(self, review: Mapping[str, Any]) -> dict[str, Any]:
        """Return the status that the webhook sets in the review. Raise RemoteWebhookFailed if it cannot be obtained."""
        try:
            body = await self.post(msgspec.json.encode(review))
        except RemoteWebhookFailed as error:
            log.warning("webhook %s failed: %s", self._access.server, error)
            raise
        return _status(body, str(review["kind"]))


def _status(body: bytes, kind: str) -> dict[str, Any]:
    try:
        review = msgspec.json.decode(body, type=dict[str, Any])
    except JSON_ERRORS as error:
        raise RemoteWebhookFailed(f"the response of the webhook is not a {kind}: {error}") from None
    if review.get("kind", kind) != kind:
        raise RemoteWebhookFailed(f"the response of the webhook is a {review['kind']}, not a {kind}")
    status = review.get("status")
    return status if isinstance(status, dict) else {}


def _is_retriable(error: Exception) -> bool:
    """Whether a retry may help: the connection was reset, or the status code says so."""
    if isinstance(error, ConnectionFailed):
        return isinstance(error.__cause__, ConnectionResetError) or type(error.__cause__).__name__ in _BROKEN
    if not isinstance(error, errors.ApiError):
        return False
    return error.code in (429, 500, 504) or bool(error.retry_after_s)


_BROKEN = frozenset({"ServerDisconnectedError", "ClientConnectionResetError"})
