"""Writes to etcd: each is one transaction.

If the response to a write is lost, the later events of its key tell, where possible, whether it took effect.

Keys with the same time to live that are written within a short time share a lease and expire together. Most such keys
are events, of which there are thousands; a lease for each would cost etcd more than the events themselves. A lease is
granted for slightly longer than requested and is reused while its remaining time is at least the requested one, for a
limited number of keys (all of them are deleted in one transaction when it expires).

Times are those of the event loop, not of the injected clock: etcd counts leases down in real time, even if a simulation
uses another clock.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import Any

from msgspec import Struct

from sampan.storage.backend import KeyValue, StorageError, StoreConflict, StoreEvent, Unavailable
from sampan.storage.etcd import wire
from sampan.storage.etcd.client import EtcdClient, EtcdError, FailureKind, translate_error

MAX_KEYS = 1000
EXTRA, MIN_EXTRA_S, MAX_EXTRA_S = 0.05, 1.0, 60.0
Grant = Callable[[int], Awaitable[tuple[int, int]]]
"""Takes whole seconds and returns the ID of the lease and the seconds that the server granted."""


class _SharedLease:
    __slots__ = ("id", "keys", "usable_until")

    def __init__(self, lease: int, usable_until: float) -> None:
        self.id, self.usable_until, self.keys = lease, usable_until, 0

    def is_usable(self) -> bool:
        return self.keys < MAX_KEYS and asyncio.get_running_loop().time() <= self.usable_until


class LeasePool:
    def __init__(self, grant: Grant) -> None:
        self._grant = grant
        self._by_ttl: dict[float, _SharedLease] = {}
        self._granting: dict[float, asyncio.Lock] = {}

    async def take(self, ttl_s: float) -> int:
        """Return the ID of a lease that lasts at least `ttl_s` from now, for one more key."""
        lease = self._by_ttl.get(ttl_s)
        if lease is None or not lease.is_usable():
            lease = await self._renew_lease(ttl_s)
        lease.keys += 1
        return lease.id

    def drop(self, lease: int) -> None:
        """Forget a lease that etcd does not know."""
        self._by_ttl = {ttl_s: granted for ttl_s, granted in self._by_ttl.items() if granted.id != lease}

    async def _renew_lease(self, ttl_s: float) -> _SharedLease:
        async with self._granting.setdefault(ttl_s, asyncio.Lock()):
            lease = self._by_ttl.get(ttl_s)
            if lease is None or not lease.is_usable():
                lease = await self._grant_lease(ttl_s)
                self._forget_spent()
                self._by_ttl[ttl_s] = lease
        return lease

    async def _grant_lease(self, ttl_s: float) -> _SharedLease:
        asked_at = asyncio.get_running_loop().time()
        extra_s = min(max(ttl_s * EXTRA, MIN_EXTRA_S), MAX_EXTRA_S)
        lease, granted_s = await self._grant(math.ceil(ttl_s + extra_s))
        return _SharedLease(lease, asked_at + granted_s - ttl_s)

    def _forget_spent(self) -> None:
        self._by_ttl = {ttl_s: lease for ttl_s, lease in self._by_ttl.items() if lease.is_usable()}
        self._granting = {ttl_s: lock for ttl_s, lock in self._granting.items() if lock.locked()}


class WriteRequest(Struct, frozen=True, kw_only=True):
    key: str
    value: bytes | None
    """The value to put, or None for a deletion."""
    expected: int | None

    @property
    def is_safe_twice(self) -> bool:
        """Whether only one of two attempts at the write can ever take effect."""
        return self.expected is not None


class WriteOutcome(Enum):
    DONE = auto()
    NOT_DONE = auto()
    UNKNOWN = auto()


class WriteFate(Struct, frozen=True):
    outcome: WriteOutcome
    revision: int = 0


def determine_result(write: WriteRequest, since: Sequence[StoreEvent]) -> WriteFate:
    """Decide whether the write took effect.

    `since` contains all events of the key after a revision that the store had reached before the first attempt. A
    compare-and-swap put that took effect is the first change after the revision that it expected (or the creation of
    the key, if it expected none), and is identified by its value. A deletion looks like any other deletion, so that
    observing one proves nothing; and an unconditional write may still take effect later.
    """
    if write.value is None:
        return _determine_deletion(write, since)
    for event in since:
        is_ours = event.value == write.value and (write.expected != 0 or event.is_create)
        if is_ours and event.revision > (write.expected or 0):
            return WriteFate(WriteOutcome.DONE, event.revision)
        if write.expected and event.revision > write.expected:
            return WriteFate(WriteOutcome.NOT_DONE)
    return WriteFate(WriteOutcome.UNKNOWN if write.expected is None else WriteOutcome.NOT_DONE)


def _determine_deletion(write: WriteRequest, since: Sequence[StoreEvent]) -> WriteFate:
    if write.expected is None:
        return WriteFate(WriteOutcome.UNKNOWN)
    first = next((event for event in since if event.revision > (write.expected or 0)), None)
    return WriteFate(WriteOutcome.UNKNOWN if first is not None and first.is_delete else WriteOutcome.NOT_DONE)


ReachedRevision = Callable[[], int]
"""Returns a revision that the store has reached."""
Since = Callable[[str, int], Awaitable[Sequence[StoreEvent] | None]]
"""Returns all events of a key after a revision up to now, or None if that is unknown."""


class EtcdWriter:
    """Writes with retries.

    A write whose response was lost is retried only if that is safe: a compare-and-swap takes effect once however often
    it is sent. A conflict of the retry may then mean that the first attempt succeeded, which `_settle` resolves.
    """

    def __init__(
        self, *, client: EtcdClient, keys: wire.KeyCodec, leases: LeasePool, reached: ReachedRevision, since: Since
    ) -> None:
        self._client, self._keys, self._leases = client, keys, leases
        self._reached, self._since = reached, since
        self.failure = ""
        """Why etcd rejects puts, because of its NOSPACE alarm; empty once it has accepted one again."""

    async def put(self, key: str, value: bytes, expected: int | None, ttl_s: float | None) -> int:
        return await self._carry_out(WriteRequest(key=key, value=value, expected=expected), ttl_s)

    async def delete(self, key: str, expected: int | None) -> int:
        return await self._carry_out(WriteRequest(key=key, value=None, expected=expected), None)

    async def _carry_out(self, write: WriteRequest, ttl_s: float | None) -> int:
        """Attempt the write until its outcome is known, and return its revision.

        `before` is taken before the first attempt, so that the events after it include the write if it took effect. A
        write that is not safe to repeat gets the timeout of the whole request, and no retry after a lost response.
        """
        before, lost = self._reached(), None
        last: EtcdError | None = None
        attempts = self._client.attempts()
        while (timeout_s := await attempts.wait_for_next()) is not None:
            if not write.is_safe_twice:
                timeout_s = self._client.timeouts.request_s
            try:
                return self._revision(write, await self._attempt(write, ttl_s, timeout_s))
            except StoreConflict as conflict:
                if lost is None:
                    raise
                return await self._settle(write, before, lost, conflict)
            except StorageError as error:
                raise _merge_errors(error, lost) from error
            except EtcdError as failure:
                last = failure
                if failure.kind is FailureKind.UNKNOWN:
                    lost = failure
                    if not write.is_safe_twice:
                        return await self._settle(write, before, lost, None)
                elif failure.kind is FailureKind.FULL:
                    return await self._resolve_full_store(write, before, failure, lost)
                elif failure.kind not in (FailureKind.NOT_DONE, FailureKind.LEASE_GONE):
                    raise _merge_errors(translate_error(failure), lost) from failure
        raise Unavailable(f"etcd: {last and last.text}", may_have_happened=lost is not None) from last

    async def _attempt(self, write: WriteRequest, ttl_s: float | None, timeout_s: float) -> Any:
        key = self._keys.encode(write.key)
        if write.value is None:
            request = wire.delete(key, expected=write.expected)
            return await self._client.attempt(self._client.txn, request, timeout_s)
        lease = await self._leases.take(ttl_s) if ttl_s is not None else 0
        request = wire.put(key, write.value, expected=write.expected, lease=lease)
        try:
            return await self._client.attempt(self._client.txn, request, timeout_s)
        except EtcdError as error:
            if error.kind is FailureKind.LEASE_GONE:
                self._leases.drop(lease)
            raise

    def _revision(self, write: WriteRequest, response: Any) -> int:
        first = response.responses[0]
        if not response.succeeded:
            raise StoreConflict(write.key, self._entry(first.response_range))
        if write.value is None and not first.response_delete_range.deleted:
            raise StoreConflict(write.key, None)
        revision: int = response.header.revision
        if write.value is not None:
            self.failure = ""
        return revision

    def _entry(self, pair: Any) -> KeyValue | None:
        return self._keys.entry(pair.kvs[0]) if pair.kvs else None

    async def _settle(self, write: WriteRequest, before: int, lost: EtcdError, conflict: StoreConflict | None) -> int:
        events = await self._since(write.key, before)
        if events is not None:
            result = determine_result(write, events)
            if result.outcome is WriteOutcome.DONE:
                return result.revision
            if result.outcome is WriteOutcome.NOT_DONE and conflict is not None:
                raise conflict
        raise Unavailable(f"etcd: {lost.text}", may_have_happened=True) from lost

    async def _resolve_full_store(
        self, write: WriteRequest, before: int, full: EtcdError, lost: EtcdError | None
    ) -> int:
        """Resolve a write that was rejected because etcd is full. The write that exceeds the quota takes effect, but
        gets the same response as later writes, which have no effect."""
        events = await self._since(write.key, before)
        if events is not None:
            result = determine_result(write, events)
            if result.outcome is WriteOutcome.DONE:
                return result.revision
        may_have_happened = events is None or lost is not None
        self.failure = f"etcd is full: {full.text}"
        raise Unavailable(self.failure, may_have_happened=may_have_happened) from full


def _merge_errors(error: Exception, lost: EtcdError | None) -> Exception:
    """Return the error that ends the attempts, taking into account an earlier attempt whose response was lost."""
    return error if lost is None else Unavailable(f"etcd: {lost.text}; then {error}", may_have_happened=True)
