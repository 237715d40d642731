"""Writes: each is one transaction, and its outcome is determined wherever possible if the response is lost.

Whether a write took effect whose response was lost, decided where possible from the later events of its key."""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import Any

from msgspec import Struct

from sampan.storage.backend import KeyValue, StorageError, StoreConflict, StoreEvent, Unavailable
from sampan.storage.etcd import wire
from sampan.storage.etcd.client import EtcdClient, translated
from sampan.storage.etcd.errors import EtcdError, FailureKind
from sampan.storage.etcd.leases import Leases


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
        self, *, client: EtcdClient, keys: wire.Keys, leases: Leases, reached: ReachedRevision, since: Since
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
        while (timeout_s := await attempts.next()) is not None:
            if not write.is_safe_twice:
                timeout_s = self._client.timeouts.request_s
            try:
                return self._revision(write, await self._attempt(write, ttl_s, timeout_s))
            except StoreConflict as conflict:
                if lost is None:
                    raise
                return await self._settle(write, before, lost, conflict)
            except StorageError as error:
                raise _final(error, lost) from error
            except EtcdError as failure:
                last = failure
                if failure.kind is FailureKind.UNKNOWN:
                    lost = failure
                    if not write.is_safe_twice:
                        return await self._settle(write, before, lost, None)
                elif failure.kind is FailureKind.FULL:
                    return await self._settle_full(write, before, failure, lost)
                elif failure.kind not in (FailureKind.NOT_DONE, FailureKind.LEASE_GONE):
                    raise _final(translated(failure), lost) from failure
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

    async def _settle_full(self, write: WriteRequest, before: int, full: EtcdError, lost: EtcdError | None) -> int:
        """Resolve a write that was rejected because etcd is full.

        The write that exceeds the quota takes effect, but gets the same response as later ones, which do not.
        """
        events = await self._since(write.key, before)
        if events is not None:
            result = determine_result(write, events)
            if result.outcome is WriteOutcome.DONE:
                return result.revision
        may_have_happened = events is None or lost is not None
        self.failure = f"etcd is full: {full.text}"
        raise Unavailable(self.failure, may_have_happened=may_have_happened) from full


def _final(error: Exception, lost: EtcdError | None) -> Exception:
    """Return the error that ends the attempts, taking into account an earlier attempt whose response was lost."""
    return error if lost is None else Unavailable(f"etcd: {lost.text}; then {error}", may_have_happened=True)
