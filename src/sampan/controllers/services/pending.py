"""Tracking of written slices that the cache does not show yet. Until it does, nothing is planned for their owner.

This relies on the resourceVersion being one increasing number for the whole store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.machinery.clock import Clock
from sampan.machinery.object_key import Key, key_of

_PATIENCE_S = 30.0
"""Seconds to wait at most: an object created and deleted while the watch was interrupted never appears in the cache."""


@dataclass(frozen=True, slots=True)
class _Awaited:
    version: int
    until: float


class Pending:
    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._awaited: dict[Key, dict[Key, _Awaited]] = {}
        """Written objects that the cache does not show yet, by owner."""
        self._owner: dict[Key, Key] = {}
        self._held_up: set[Key] = set()
        """Owners whose sync was deferred, which must be enqueued when their writes have appeared."""

    def wrote(self, owner: Key, obj: Any, shown: Any | None) -> None:
        """Record the response to a write. `shown` is the cached object: the watch event may precede the response."""
        key, version = key_of(obj), int(obj.metadata.resourceVersion)
        if shown is None or int(shown.metadata.resourceVersion) < version:
            self._awaited.setdefault(owner, {})[key] = _Awaited(version, self._clock.monotonic() + _PATIENCE_S)
            self._owner[key] = owner

    def is_own(self, old: Any | None, new: Any | None) -> bool:
        """Process a change of the cache. Return whether it is an own write that no deferred sync depends on."""
        key = key_of(new if new is not None else old)
        owner = self._owner.get(key)
        if owner is None:
            return False
        version = int(new.metadata.resourceVersion) if new is not None else None
        expected = self._awaited[owner][key].version
        if version is not None and version < expected:
            return False
        return not self._has_come(owner, key) and version == expected

    def wait_s(self, owner: Key) -> float:
        """Return the seconds to wait at most for the writes of the owner to appear, and mark its sync as deferred."""
        now = self._clock.monotonic()
        wait_s = max((expected.until - now for expected in self._awaited.get(owner, {}).values()), default=0.0)
        if wait_s > 0:
            self._held_up.add(owner)
        return max(wait_s, 0.0)

    def forget(self, owner: Key) -> None:
        self._held_up.discard(owner)
        for key in self._awaited.pop(owner, {}):
            self._owner.pop(key, None)

    def _has_come(self, owner: Key, key: Key) -> bool:
        """Forget an awaited write. Return whether it was the last one that a deferred sync waited for."""
        del self._owner[key], self._awaited[owner][key]
        if self._awaited[owner]:
            return False
        is_held_up = owner in self._held_up
        self.forget(owner)
        return is_held_up
