"""Changes that wait to be sent, coalesced by object: of several changes of an object only the last one is sent."""

from __future__ import annotations

import msgspec

_MAX_BATCH_SIZE = 2000
_MAX_PENDING_BYTES = 8 << 20
"""The maximum size of the pending changes of a subscription. Beyond it they are dropped, and the list is read again
once the page has caught up."""
_MAX_PENDING_CHANGES = 50_000
_MAX_TOTAL_BYTES = 64 << 20
_encode = msgspec.json.Encoder().encode


class ChangeBudget:
    """A limit for the pending bytes of all pages together. Pages that do not read must not use up the memory of the
    server, however many subscriptions they have."""

    def __init__(self, max_bytes: int = _MAX_TOTAL_BYTES) -> None:
        self._max_bytes = max_bytes
        self.bytes = 0
        self.subscriptions = 0

    def is_exceeded_by(self, size: int) -> bool:
        """Whether the budget is exceeded and a subscription with that many bytes has more than an equal share."""
        return self.bytes > self._max_bytes and size > self._max_bytes // max(self.subscriptions, 1)


class CoalescedChanges:
    """The pending changes of one subscription. Their size counts in the budget from `open` to `close`."""

    def __init__(self, budget: ChangeBudget) -> None:
        self._budget = budget
        self._changes: dict[str, bytes | None] = {}
        self._bytes = 0
        self.is_overflowed = False
        """Whether changes were dropped, so that the list must be read again."""
        self.resource_version = ""

    def __bool__(self) -> bool:
        return bool(self._changes)

    def add(self, key: str, row: bytes | None) -> None:
        """Add the latest row of an object; None means that the object was deleted."""
        self._count(_size(key, row) - (_size(key, self._changes[key]) if key in self._changes else 0))
        self._changes[key] = row
        is_too_much = self._bytes > _MAX_PENDING_BYTES or len(self._changes) > _MAX_PENDING_CHANGES
        if is_too_much or self._budget.is_exceeded_by(self._bytes):
            self.clear()
            self.is_overflowed = True

    def clear(self) -> None:
        self._count(-self._bytes)
        self._changes, self.is_overflowed = {}, False

    def open(self) -> None:
        self._budget.subscriptions += 1

    def close(self) -> None:
        self.clear()
        self._budget.subscriptions -= 1

    def _count(self, change: int) -> None:
        self._bytes += change
        self._budget.bytes += change

    def take(self) -> tuple[bytes, bool]:
        """Remove a batch of changes. Return it as a JSON array, and whether there are more."""
        keys = list(self._changes)[:_MAX_BATCH_SIZE]
        pieces = []
        for key in keys:
            row = self._changes.pop(key)
            self._count(-_size(key, row))
            pieces.append(b'["DELETE",%b]' % _encode(key) if row is None else b'["PUT",%b]' % row)
        return b"[%b]" % b",".join(pieces), bool(self._changes)


def _size(key: str, row: bytes | None) -> int:
    return len(key) + (len(row) if row is not None else 0)
