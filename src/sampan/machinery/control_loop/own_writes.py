"""Own writes that a component's cache does not show yet.

A component that decides from a cache which lacks its own last write would repeat that write. It therefore records the
objects that the API server returned, and does not act on a cached object that is older. This relies on the
resourceVersion being one increasing number for the whole store. `DependentWrites` records writes of dependents, which
hold up their owner.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sampan.api.semantics.owners import WithMetadata
from sampan.host.clock import Clock
from sampan.machinery.informer import Informer
from sampan.machinery.object_key import NamespacedName

_OBSERVATION_TIMEOUT_S = 30.0
"""How long dependents are awaited: one that is created and deleted while the watch is interrupted never appears in the
cache."""


class OwnWrites:
    """The resource versions of own writes, by UID. An entry is dropped when the cache has caught up with it."""

    def __init__(self) -> None:
        self._versions: dict[str, float] = {}

    def follow(self, informer: Informer[Any]) -> Callable[[], None]:
        """Subscribe to the cache that the written objects appear in; return a function that unsubscribes."""
        return informer.subscribe(self.observe)

    def record_write(self, obj: WithMetadata) -> None:
        """Record the object from the response to a write."""
        self._versions[obj.metadata.uid] = int(obj.metadata.resourceVersion)

    def record_deletion(self, obj: WithMetadata) -> None:
        """Record that the object does not exist on the server, so that any cached copy is stale."""
        self._versions[obj.metadata.uid] = math.inf

    @property
    def is_pending(self) -> bool:
        """Whether the cache lacks any of the writes."""
        return bool(self._versions)

    def version_of(self, uid: str) -> float | None:
        """Return the resource version of the last write that the cache does not show yet."""
        return self._versions.get(uid)

    def is_stale(self, obj: WithMetadata) -> bool:
        """Whether the cached object is older than the last write to it, so that a newer one is still to arrive."""
        return int(obj.metadata.resourceVersion) < self._versions.get(obj.metadata.uid, 0)

    def observe(self, old: WithMetadata | None, new: WithMetadata | None) -> None:
        """Drop the entry of an object that has caught up in the cache, or was removed from it."""
        obj = new if new is not None else old
        if obj is not None and (new is None or not self.is_stale(new)):
            self._versions.pop(obj.metadata.uid, None)


class DependentWrites:
    """Own writes of dependents, by owner. Until the cache shows all of them, nothing is decided for the owner."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock, self._writes = clock, OwnWrites()
        self._awaited: dict[NamespacedName, dict[str, float]] = {}
        """Until when to wait for a dependent, by the keys of owners and the UIDs of dependents."""
        self._owners: dict[str, NamespacedName] = {}
        self._deferred: set[NamespacedName] = set()
        """Owners whose sync was deferred; it must be repeated when their writes have appeared."""

    def record_write(self, owner: NamespacedName, obj: WithMetadata, cached: WithMetadata | None) -> None:
        """Record the response to a write. The watch event may precede it: `cached` is the object in the cache."""
        if cached is None or int(cached.metadata.resourceVersion) < int(obj.metadata.resourceVersion):
            uid = obj.metadata.uid
            self._writes.record_write(obj)
            self._awaited.setdefault(owner, {})[uid] = self._clock.monotonic() + _OBSERVATION_TIMEOUT_S
            self._owners[uid] = owner

    def observe(self, old: WithMetadata | None, new: WithMetadata | None) -> bool:
        """Process a change of the cache. Return whether it is an own write that no deferred sync depends on."""
        obj = new if new is not None else old
        owner = self._owners.get(obj.metadata.uid) if obj is not None else None
        if obj is None or owner is None or (new is not None and self._writes.is_stale(new)):
            return False
        is_own = new is not None and int(new.metadata.resourceVersion) == self._writes.version_of(obj.metadata.uid)
        self._writes.observe(old, new)
        return not self._settle(owner, obj.metadata.uid) and is_own

    def defer(self, owner: NamespacedName) -> float:
        """Return the seconds to wait at most for the writes of the owner to appear; if any, its sync is deferred."""
        now = self._clock.monotonic()
        wait_s = max((until - now for until in self._awaited.get(owner, {}).values()), default=0.0)
        if wait_s > 0:
            self._deferred.add(owner)
        return max(wait_s, 0.0)

    def forget(self, owner: NamespacedName) -> None:
        self._deferred.discard(owner)
        for uid in self._awaited.pop(owner, {}):
            self._owners.pop(uid, None)

    def _settle(self, owner: NamespacedName, uid: str) -> bool:
        """Drop an awaited write. Return whether it was the last one that a deferred sync waited for."""
        del self._owners[uid], self._awaited[owner][uid]
        if self._awaited[owner]:
            return False
        was_deferred = owner in self._deferred
        self.forget(owner)
        return was_deferred
