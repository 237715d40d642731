"""Requests to the members of an etcd cluster: attempts, timeouts, the classification of failures, and the abilities of
each version of etcd.

The errors of etcd are recognized by their messages, which are part of its API (clients in other languages do the same);
the status code of gRPC alone does not distinguish "compacted" from "future revision", nor "never sent" from "response
lost".
"""

import asyncio
import random
import re
from enum import Enum, auto
from typing import Any

import grpc  # type: ignore[import-untyped]
from grpc import (
    StatusCode,
    aio,
)
from msgspec import Struct

from sampan.storage.backend import BackendClosed, StorageError, Unavailable
from sampan.storage.etcd.endpoints import EtcdEndpoint, EtcdEndpoints
from sampan.storage.etcd.proto import RpcMethod, load

_RANDOM = random.Random()
"""The random number generator for the delays between attempts. It is not the shared one, because tests may seed
that."""

MAX_GROWTH = 4
INITIAL_BACKOFF_S, MAX_BACKOFF_S = 0.02, 0.5

REQUIRE_LEADER = (("hasleader", "true"),)
"""Metadata that makes a member without a leader fail the request at once instead of letting it wait."""

ORDERED_PROGRESS = ((3, 4, 25), (3, 5, 8))
"""The first patch of each minor version in which progress notifications do not overtake events."""


class FailureKind(Enum):
    NOT_DONE = auto()
    """The request certainly had no effect; it can be retried at another member, or later."""
    UNKNOWN = auto()
    """The response was lost: the request may have taken effect, or may still do so."""
    COMPACTED = auto()
    FUTURE = auto()
    LEASE_GONE = auto()
    FULL = auto()
    """The quota of etcd is exceeded and it rejects writes, although this write may have been the last to succeed."""
    DENIED = auto()
    """Authentication or authorization failed."""
    REFUSED = auto()
    """etcd will never accept the request (too large, invalid)."""


class EtcdError(Exception):
    """A failed attempt; `text` is the message of etcd or gRPC."""

    def __init__(self, kind: FailureKind, text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text

    @property
    def is_transient(self) -> bool:
        return self.kind in (FailureKind.NOT_DONE, FailureKind.UNKNOWN)


_TEXTS = (
    ("required revision has been compacted", FailureKind.COMPACTED),
    ("required revision is a future revision", FailureKind.FUTURE),
    ("requested lease not found", FailureKind.LEASE_GONE),
    ("database space exceeded", FailureKind.FULL),
    ("request is too large", FailureKind.REFUSED),
    ("user name is empty", FailureKind.DENIED),
    ("invalid auth token", FailureKind.DENIED),
    # Raised before a request is processed (the `hasleader` metadata, the limit on concurrent requests).
    ("etcdserver: no leader", FailureKind.NOT_DONE),
    ("etcdserver: too many requests", FailureKind.NOT_DONE),
    # The channel had no connection.
    ("failed to connect to all addresses", FailureKind.NOT_DONE),
    ("DNS resolution failed", FailureKind.NOT_DONE),
)

_CODES = {
    StatusCode.UNAUTHENTICATED: FailureKind.DENIED,
    StatusCode.PERMISSION_DENIED: FailureKind.DENIED,
    StatusCode.INVALID_ARGUMENT: FailureKind.REFUSED,
    StatusCode.FAILED_PRECONDITION: FailureKind.REFUSED,
    StatusCode.OUT_OF_RANGE: FailureKind.REFUSED,
    StatusCode.NOT_FOUND: FailureKind.REFUSED,
    StatusCode.UNIMPLEMENTED: FailureKind.REFUSED,
    StatusCode.RESOURCE_EXHAUSTED: FailureKind.REFUSED,
}


def classify(code: StatusCode, details: str) -> FailureKind:
    for text, kind in _TEXTS:
        if text in details:
            return kind
    return _CODES.get(code, FailureKind.UNKNOWN)


class EtcdTimeouts(Struct, frozen=True, kw_only=True):
    """Timeouts of requests, in seconds of the event loop's clock."""

    connect_s: float = 2.0
    attempt_s: float = 2.0
    """The timeout of the first attempt; later ones may take longer.

    If a leader dies, requests that members had forwarded to it are lost, and members wait for it longer than this.
    """
    request_s: float = 15.0
    """The timeout of a request with all its attempts, several times as long as a leader election."""


class RequestAttempts:
    """The attempts of one request.

    The second follows at once, because another member may succeed; later ones follow after growing delays. Each may
    take longer than the one before, so that a request that is slow for a reason eventually succeeds.
    """

    def __init__(self, timeouts: EtcdTimeouts) -> None:
        self._end = asyncio.get_running_loop().time() + timeouts.request_s
        self._attempt_s, self._longest_s = timeouts.attempt_s, timeouts.attempt_s * MAX_GROWTH
        self._count = 0

    async def wait_for_next(self) -> float | None:
        """Wait for the next attempt and return its timeout, or None if no time is left."""
        count, self._count = self._count, self._count + 1
        if count >= 2:
            await asyncio.sleep(min(INITIAL_BACKOFF_S * 2 ** (count - 2), MAX_BACKOFF_S) * _RANDOM.uniform(0.5, 1))
        left_s = self._end - asyncio.get_running_loop().time()
        attempt_s, self._attempt_s = self._attempt_s, min(self._attempt_s * 2, self._longest_s)
        return min(attempt_s, left_s) if left_s > 0 else None


class EtcdClient:
    def __init__(self, *, endpoints: EtcdEndpoints, timeouts: EtcdTimeouts) -> None:
        self._endpoints, self.timeouts = endpoints, timeouts
        schema = load()
        self.range = schema.method("KV", "Range")
        self.txn = schema.method("KV", "Txn")
        self.compact = schema.method("KV", "Compact")
        self.grant = schema.method("Lease", "LeaseGrant")
        self.status = schema.method("Maintenance", "Status")

    async def call(self, method: RpcMethod, request: Any) -> Any:
        """Return the response of the first member that gives one.

        Raise `StorageError`, or `EtcdError` for errors that the caller translates (compacted, future revision).
        """
        last = EtcdError(FailureKind.NOT_DONE, "the deadline passed before an attempt")
        attempts = self.attempts()
        while (timeout_s := await attempts.wait_for_next()) is not None:
            try:
                return await self.attempt(method, request, timeout_s)
            except EtcdError as error:
                if not error.is_transient:
                    raise translate_error(error) from error
                last = error
        raise Unavailable(f"etcd: {last.text}") from last

    def attempts(self) -> RequestAttempts:
        return RequestAttempts(self.timeouts)

    async def attempt(self, method: RpcMethod, request: Any, timeout_s: float) -> Any:
        """Attempt the request once at one member; raise `EtcdError`."""
        return await self.ask(await self._endpoints.pick(), method, request, timeout_s)

    async def ask(self, endpoint: EtcdEndpoint, method: RpcMethod, request: Any, timeout_s: float) -> Any:
        try:
            return await endpoint.ask(method, request, timeout=timeout_s, metadata=REQUIRE_LEADER)
        except aio.AioRpcError as error:
            raise self.error_of(endpoint, error) from error
        except aio.UsageError as error:
            raise BackendClosed("the etcd backend was closed") from error

    def error_of(self, endpoint: EtcdEndpoint, error: aio.AioRpcError) -> EtcdError:
        failure = EtcdError(classify(error.code(), error.details() or ""), f"{endpoint.url}: {reason(error)}")
        if failure.is_transient:
            endpoint.shun()
        return failure


def reason(error: aio.AioRpcError) -> str:
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return "no response in time"
    text: str = error.details() or error.code().name
    return text


def translate_error(error_of: EtcdError) -> StorageError | EtcdError:
    """Return the storage error for a permanent `EtcdError`.

    Those that need more context to translate (compacted, future revision, lease) are returned unchanged.
    """
    match error_of.kind:
        case FailureKind.COMPACTED | FailureKind.FUTURE | FailureKind.LEASE_GONE:
            return error_of
        case FailureKind.DENIED:
            return StorageError(f"etcd does not allow this: {error_of.text}")
        case FailureKind.FULL:
            return Unavailable(f"etcd is full: {error_of.text}")
        case _:
            return StorageError(f"etcd: {error_of.text}")


async def sends_progress_in_order(client: EtcdClient, endpoint: EtcdEndpoint) -> bool:
    try:
        status: Any = await client.ask(endpoint, client.status, client.status.request(), client.timeouts.attempt_s)
    except EtcdError:
        return False
    return has_ordered_progress(status.version)


def has_ordered_progress(version: str) -> bool:
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if not match:
        return False
    major, minor, patch = (int(part) for part in match.groups())
    for first in ORDERED_PROGRESS:
        if (major, minor) == first[:2]:
            return patch >= first[2]
    return (major, minor) > ORDERED_PROGRESS[-1][:2]
