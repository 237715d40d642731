"""Expectations: creations and deletions of an owner that its cache does not show yet.

An owner that decides on a stale cache would create a pod twice. It therefore sets its expectations before it acts, and
informer events lower them. While any are left, nothing is created or deleted. Expectations expire after five minutes,
since another sync is better than waiting forever.

Keys are the UIDs of owners, so that an owner recreated under the same name starts without expectations.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from sampan.api.semantics.owners import controller_of
from sampan.host.clock import Clock
from sampan.machinery.informer import Informer

EXPIRY_S = 300.0


@dataclass(slots=True)
class _ExpectedChanges:
    since: float
    creations: int = 0
    deletions: set[str] = field(default_factory=set)
    """The UIDs of the objects to be deleted. A deletion is observed twice, as deletionTimestamp and as removal, but
    must count once."""

    @property
    def is_met(self) -> bool:
        return self.creations <= 0 and not self.deletions


class Expectations:
    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._expected: dict[Hashable, _ExpectedChanges] = {}

    def expect(self, key: Hashable, creations: int = 0, deletions: Iterable[str] = ()) -> None:
        """Replace the expectations of the owner: `creations` is the number of expected creations, `deletions` are the
        UIDs of the objects whose deletion is expected."""
        self._expected[key] = _ExpectedChanges(self._clock.monotonic(), creations, set(deletions))

    def lower_creations(self, key: Hashable, count: int = 1) -> None:
        """Lower the expected creations because one was observed, or has failed."""
        expected = self._expected.get(key)
        if expected is not None:
            expected.creations -= count

    def drop_deletion(self, key: Hashable, uid: str) -> None:
        """Drop an expected deletion because it was observed, or has failed."""
        expected = self._expected.get(key)
        if expected is not None:
            expected.deletions.discard(uid)

    def is_satisfied(self, key: Hashable) -> bool:
        """Whether the owner may act: everything expected was observed, or the expectations have expired."""
        expected = self._expected.get(key)
        return expected is None or expected.is_met or self._has_expired(expected)

    def expires_in(self, key: Hashable) -> float | None:
        """Return the seconds until the expectations expire, or None if none are left."""
        expected = self._expected.get(key)
        if expected is None or expected.is_met or self._has_expired(expected):
            return None
        return expected.since + EXPIRY_S - self._clock.monotonic() + 0.001

    def _has_expired(self, expected: _ExpectedChanges) -> bool:
        return self._clock.monotonic() - expected.since > EXPIRY_S

    def forget(self, key: Hashable) -> None:
        self._expected.pop(key, None)

    def follow(self, objects: Informer[Any], owners: Informer[Any]) -> Callable[[], None]:
        """Subscribe to changes of owned objects and to deletions of owners; return a function that unsubscribes.

        Subscribe in the controller's constructor, that is before the runner does, so that the expectations are updated
        before the key is reconciled.
        """
        stops = (objects.subscribe(self.observe), owners.subscribe(self._observe_owner))

        def stop() -> None:
            for unsubscribe in stops:
                unsubscribe()

        return stop

    def observe(self, old: Any | None, new: Any | None) -> None:
        """Lower the expectations for a change of an owned object. A terminating object counts as deleted."""
        obj = old if new is None else new
        reference = controller_of(obj) if obj is not None and self._expected else None
        if obj is None or reference is None or reference.uid not in self._expected:
            return
        if new is None or new.metadata.deletionTimestamp is not None:
            self.drop_deletion(reference.uid, obj.metadata.uid)
            if old is None:
                self.lower_creations(reference.uid)
        elif old is None:
            self.lower_creations(reference.uid)

    def _observe_owner(self, old: Any | None, new: Any | None) -> None:
        if new is None and old is not None:
            self.forget(old.metadata.uid)
