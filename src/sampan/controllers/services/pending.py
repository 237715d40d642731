"""What we have written and the cache does not show yet: until it does, nothing is planned that could undo or repeat it.

The version of an object is a number that only rises: one count for the whole store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.machinery.clock import Clock
from sampan.machinery.object_key import Key, key_of

_PATIENCE_S = 30.0
"""An object that was created and deleted while the connection was lost is never shown."""


@dataclass(frozen=True, slots=True)
class _Awaited:
    version: int
    until: float


class Pending:
    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._awaited: dict[Key, dict[Key, _Awaited]] = {}
        """By owner: what was written for it and is not shown."""
        self._owner: dict[Key, Key] = {}
        self._held_up: set[Key] = set()
        """Owners that were told to wait: they are to be looked at when what they wait for has come."""

    def wrote(self, owner: Key, obj: Any, shown: Any | None) -> None:
        """The object is as the server answered a write; `shown` is what the cache has of it: the news may come before
        the answer."""
        key, version = key_of(obj), int(obj.metadata.resourceVersion)
        if shown is None or int(shown.metadata.resourceVersion) < version:
            self._awaited.setdefault(owner, {})[key] = _Awaited(version, self._clock.monotonic() + _PATIENCE_S)
            self._owner[key] = owner

    def is_own(self, old: Any | None, new: Any | None) -> bool:
        """To be asked of every change that the cache shows: whether it is ours, and nobody waits for it."""
        key = key_of(new if new is not None else old)
        owner = self._owner.get(key)
        if owner is None:
            return False
        version = int(new.metadata.resourceVersion) if new is not None else None
        awaited = self._awaited[owner][key].version
        if version is not None and version < awaited:
            return False
        return not self._has_come(owner, key) and version == awaited

    def wait_s(self, owner: Key) -> float:
        """How long to wait for what was written for the owner, at most."""
        now = self._clock.monotonic()
        wait_s = max((awaited.until - now for awaited in self._awaited.get(owner, {}).values()), default=0.0)
        if wait_s > 0:
            self._held_up.add(owner)
        return max(wait_s, 0.0)

    def forget(self, owner: Key) -> None:
        self._held_up.discard(owner)
        for key in self._awaited.pop(owner, {}):
            self._owner.pop(key, None)

    def _has_come(self, owner: Key, key: Key) -> bool:
        """Whether that was the last that a held-up owner waited for."""
        del self._owner[key], self._awaited[owner][key]
        if self._awaited[owner]:
            return False
        is_held_up = owner in self._held_up
        self.forget(owner)
        return is_held_up


__all__ = ["Pending"]
