"""Changes that wait to be sent, coalesced by object: of several changes of an object only the last one is sent."""

from __future__ import annotations

import msgspec

_LARGEST_BATCH = 2000
_MOST_BYTES = 8 << 20
"""Beyond this size the changes are dropped and the list is read again once the page has caught up."""
_MOST_CHANGES = 50_000
_encode = msgspec.json.Encoder().encode


class CoalescedChanges:
    def __init__(self) -> None:
        self._changes: dict[str, bytes | None] = {}
        self._bytes = 0
        self.is_overflowed = False
        """Whether changes were dropped, so that the list must be read again."""
        self.resource_version = ""

    def __bool__(self) -> bool:
        return bool(self._changes)

    def add(self, key: str, row: bytes | None) -> None:
        """Add the latest row of an object; None if it was deleted."""
        self._bytes += _size(key, row) - (_size(key, self._changes[key]) if key in self._changes else 0)
        self._changes[key] = row
        if self._bytes > _MOST_BYTES or len(self._changes) > _MOST_CHANGES:
            self.clear()
            self.is_overflowed = True

    def clear(self) -> None:
        self._changes, self._bytes, self.is_overflowed = {}, 0, False

    def take(self) -> tuple[bytes, bool]:
        """Remove a batch of changes. Return it as a JSON array, and whether there are more."""
        keys = list(self._changes)[:_LARGEST_BATCH]
        pieces = []
        for key in keys:
            row = self._changes.pop(key)
            self._bytes -= _size(key, row)
            pieces.append(b'["DELETE",%b]' % _encode(key) if row is None else b'["PUT",%b]' % row)
        return b"[%b]" % b",".join(pieces), bool(self._changes)


def _size(key: str, row: bytes | None) -> int:
    return len(key) + (len(row) if row is not None else 0)
