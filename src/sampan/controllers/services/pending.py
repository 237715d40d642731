"""What we have written and the cache does not show yet: nothing is created twice because of it."""

from __future__ import annotations

from typing import Any

from sampan.machinery.clock import Clock
from sampan.machinery.object_key import Key, key_of

_PATIENCE_S = 30.0
"""An object that was created and deleted while the connection was lost is never shown."""


class Pending:
    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._created: dict[Key, dict[Key, float]] = {}
        """By owner: what was created and not seen, and until when to wait for it."""
        self._owner: dict[Key, Key] = {}
        self._held_up: set[Key] = set()
        """Owners that were told to wait: they are to be looked at when what they wait for has come."""
        self._versions: dict[Key, str] = {}
        """Of our last write to an object."""

    def created(self, owner: Key, obj: Any) -> None:
        """Not to be called if the cache has it already: the news may come before the answer."""
        key = key_of(obj)
        self._created.setdefault(owner, {})[key] = self._clock.now() + _PATIENCE_S
        self._owner[key] = owner

    def wrote(self, obj: Any) -> None:
        self._versions[key_of(obj)] = obj.metadata.resourceVersion

    def is_own(self, old: Any | None, new: Any | None) -> bool:
        """To be asked of every change that the cache shows: whether it is ours, and nobody waits for it."""
        obj = new if new is not None else old
        key = key_of(obj)
        is_awaited = self._has_come(key)
        version = self._versions.pop(key, None)
        return new is not None and version == new.metadata.resourceVersion and not is_awaited

    def wait_s(self, owner: Key) -> float:
        """How long to wait for what was created for the owner, at most."""
        now = self._clock.now()
        wait_s = max((until - now for until in self._created.get(owner, {}).values()), default=0.0)
        if wait_s > 0:
            self._held_up.add(owner)
        return max(wait_s, 0.0)

    def forget(self, owner: Key) -> None:
        self._held_up.discard(owner)
        for key in self._created.pop(owner, {}):
            self._owner.pop(key, None)

    def _has_come(self, key: Key) -> bool:
        owner = self._owner.pop(key, None)
        if owner is None:
            return False
        waiting = self._created[owner]
        waiting.pop(key, None)
        if waiting:
            return False
        is_awaited = owner in self._held_up
        self.forget(owner)
        return is_awaited


__all__ = ["Pending"]
