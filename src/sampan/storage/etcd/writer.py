"""Writes: each is one transaction, and its outcome is determined wherever possible if the response is lost."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sampan.storage.backend import Conflict, Entry, Event, StorageError, Unavailable
from sampan.storage.etcd import wire
from sampan.storage.etcd.client import Client, translated
from sampan.storage.etcd.faults import Fault, Kind
from sampan.storage.etcd.lease import Leases
from sampan.storage.etcd.verdict import Outcome, Write, judge

Seen = Callable[[], int]
"""Returns a revision that the store has reached."""
Since = Callable[[str, int], Awaitable[Sequence[Event] | None]]
"""Returns all events of a key after a revision up to now, or None if that is unknown."""


class Writer:
    """Writes with retries.

    A write whose response was lost is retried only if that is safe: a compare-and-swap takes effect once however often
    it is sent. A conflict of the retry may then mean that the first attempt succeeded, which `_settle` resolves.
    """

    def __init__(self, *, client: Client, keys: wire.Keys, leases: Leases, seen: Seen, since: Since) -> None:
        self._client, self._keys, self._leases = client, keys, leases
        self._seen, self._since = seen, since
        self.failure = ""
        """Why etcd rejects puts, because of its NOSPACE alarm; empty once it has accepted one again."""

    async def put(self, key: str, value: bytes, expected: int | None, ttl_s: float | None) -> int:
        return await self._carry_out(Write(key=key, value=value, expected=expected), ttl_s)

    async def delete(self, key: str, expected: int | None) -> int:
        return await self._carry_out(Write(key=key, value=None, expected=expected), None)

    async def _carry_out(self, write: Write, ttl_s: float | None) -> int:
        """Attempt the write until its outcome is known, and return its revision.

        `before` is taken before the first attempt, so that the events after it include the write if it took effect. A
        write that is not safe to repeat gets the timeout of the whole request, and no retry after a lost response.
        """
        before, lost = self._seen(), None
        last: Fault | None = None
        attempts = self._client.attempts()
        while (timeout_s := await attempts.next()) is not None:
            if not write.is_safe_twice:
                timeout_s = self._client.timeouts.request_s
            try:
                return self._revision(write, await self._attempt(write, ttl_s, timeout_s))
            except Conflict as conflict:
                if lost is None:
                    raise
                return await self._settle(write, before, lost, conflict)
            except StorageError as error:
                raise _final(error, lost) from error
            except Fault as failure:
                last = failure
                if failure.kind is Kind.UNKNOWN:
                    lost = failure
                    if not write.is_safe_twice:
                        return await self._settle(write, before, lost, None)
                elif failure.kind is Kind.FULL:
                    return await self._settle_full(write, before, failure, lost)
                elif failure.kind not in (Kind.NOT_DONE, Kind.LEASE_GONE):
                    raise _final(translated(failure), lost) from failure
        raise Unavailable(f"etcd: {last and last.text}", may_have_happened=lost is not None) from last

    async def _attempt(self, write: Write, ttl_s: float | None, timeout_s: float) -> Any:
        key = self._keys.encode(write.key)
        if write.value is None:
            request = wire.delete(key, expected=write.expected)
            return await self._client.attempt(self._client.txn, request, timeout_s)
        lease = await self._leases.take(ttl_s) if ttl_s is not None else 0
        request = wire.put(key, write.value, expected=write.expected, lease=lease)
        try:
            return await self._client.attempt(self._client.txn, request, timeout_s)
        except Fault as error:
            if error.kind is Kind.LEASE_GONE:
                self._leases.drop(lease)
            raise

    def _revision(self, write: Write, answer: Any) -> int:
        first = answer.responses[0]
        if not answer.succeeded:
            raise Conflict(write.key, self._entry(first.response_range))
        if write.value is None and not first.response_delete_range.deleted:
            raise Conflict(write.key, None)
        revision: int = answer.header.revision
        if write.value is not None:
            self.failure = ""
        return revision

    def _entry(self, found: Any) -> Entry | None:
        return self._keys.entry(found.kvs[0]) if found.kvs else None

    async def _settle(self, write: Write, before: int, lost: Fault, conflict: Conflict | None) -> int:
        events = await self._since(write.key, before)
        if events is not None:
            verdict = judge(write, events)
            if verdict.outcome is Outcome.DONE:
                return verdict.revision
            if verdict.outcome is Outcome.NOT_DONE and conflict is not None:
                raise conflict
        raise Unavailable(f"etcd: {lost.text}", may_have_happened=True) from lost

    async def _settle_full(self, write: Write, before: int, full: Fault, lost: Fault | None) -> int:
        """Resolve a write that was rejected because etcd is full.

        The write that exceeds the quota takes effect, but gets the same response as later ones, which do not.
        """
        events = await self._since(write.key, before)
        if events is not None:
            verdict = judge(write, events)
            if verdict.outcome is Outcome.DONE:
                return verdict.revision
        may_have_happened = events is None or lost is not None
        self.failure = f"etcd is full: {full.text}"
        raise Unavailable(self.failure, may_have_happened=may_have_happened) from full


def _final(error: Exception, lost: Fault | None) -> Exception:
    """Return the error that ends the attempts, taking into account an earlier attempt whose response was lost."""
    return error if lost is None else Unavailable(f"etcd: {lost.text}; then {error}", may_have_happened=True)
