"""What an owner has created and deleted that its cache does not show yet.

An owner that decided by a cache that is behind would create a pod twice. So it says what it expects before it acts, the
handler of the cache's changes takes that off, and while something is left nothing is created or deleted. What is not
seen within five minutes is given up: better to look again than to wait for ever.

Keys are owners' uids: an owner made anew under an old name starts with a clean sheet.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from sampan.controllers.ownership.references import controller_of
from sampan.machinery.clock import Clock
from sampan.machinery.informer import Informer

EXPIRY_S = 300.0


@dataclass(slots=True)
class _Expected:
    since: float
    creations: int = 0
    deletions: set[str] = field(default_factory=set)
    """Uids. A deletion shows twice, as a mark and as an end, and counts once."""

    @property
    def is_met(self) -> bool:
        return self.creations <= 0 and not self.deletions


class Expectations:
    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._expected: dict[Hashable, _Expected] = {}

    def expect(self, key: Hashable, creations: int = 0, deletions: Iterable[str] = ()) -> None:
        """From now on wait for so many creations and for the end of these uids, and for nothing else."""
        self._expected[key] = _Expected(self._clock.monotonic(), creations, set(deletions))

    def created(self, key: Hashable, count: int = 1) -> None:
        """A creation was seen, or will not be."""
        found = self._expected.get(key)
        if found is not None:
            found.creations -= count

    def deleted(self, key: Hashable, uid: str) -> None:
        """A deletion was seen, or will not be."""
        found = self._expected.get(key)
        if found is not None:
            found.deletions.discard(uid)

    def satisfied(self, key: Hashable) -> bool:
        found = self._expected.get(key)
        if found is None:
            return True
        if found.is_met or self._clock.monotonic() - found.since > EXPIRY_S:
            del self._expected[key]
            return True
        return False

    def expires_in(self, key: Hashable) -> float | None:
        """After how many seconds to look again, should nothing be seen; None if nothing is awaited."""
        found = self._expected.get(key)
        if found is None or found.is_met:
            return None
        return max(found.since + EXPIRY_S - self._clock.monotonic(), 0) + 0.001

    def forget(self, key: Hashable) -> None:
        self._expected.pop(key, None)

    def follow(self, objects: Informer[Any], owners: Informer[Any]) -> Callable[[], None]:
        """Be told of what is owned, and of owners that go. Subscribe before the runner does, as a controller's
        constructor will, and a key is looked at only after its expectations know. Call what is returned to stop."""
        stops = (objects.subscribe(self.observe), owners.subscribe(self._observe_owner))

        def stop() -> None:
            for each in stops:
                each()

        return stop

    def observe(self, old: Any | None, new: Any | None) -> None:
        """Take off what a change of an owned object shows. An object marked for deletion counts as deleted."""
        obj = old if new is None else new
        reference = controller_of(obj) if self._expected else None
        if obj is None or reference is None or reference.uid not in self._expected:
            return
        if new is None or new.metadata.deletionTimestamp is not None:
            self.deleted(reference.uid, obj.metadata.uid)
            if old is None:
                self.created(reference.uid)
        elif old is None:
            self.created(reference.uid)

    def _observe_owner(self, old: Any | None, new: Any | None) -> None:
        if new is None and old is not None:
            self.forget(old.metadata.uid)


__all__ = ["EXPIRY_S", "Expectations"]
