"""The flight recorder: what happened lately and why, in a ring of bounded size that every component writes.

A record is cheap (a struct into a deque) and says who did what to which object and what came of it. Nothing secret goes
in: names, versions and outcomes, never contents.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from sampan.machinery.clock import Clock

CAPACITY = 20_000


class Record(msgspec.Struct, omit_defaults=True, gc=False, frozen=True):
    number: int
    """Counts up from 1 and is never used twice; a gap at the start means that older records were dropped."""
    time: float
    component: str
    """apiserver, kube-scheduler, a controller's name, kubelet/NODE."""
    action: str
    """A verb: create, patch, bind, start."""
    subject: str = ""
    """What it was done to: pods/NAMESPACE/NAME, or a path."""
    actor: str = ""
    """Who asked for it."""
    uid: str = ""
    revision: str = ""
    """The resource version that came of it."""
    outcome: str = ""
    """What was decided: a status code, a reason, a node."""


class FlightRecorder:
    def __init__(self, *, clock: Clock, capacity: int = CAPACITY) -> None:
        self._clock = clock
        self._ring: deque[Record] = deque(maxlen=capacity)
        self._count = 0

    def note(
        self,
        component: str,
        action: str,
        subject: str = "",
        *,
        actor: str = "",
        uid: str = "",
        revision: str = "",
        outcome: str = "",
    ) -> None:
        self._count += 1
        now = self._clock.now()
        self._ring.append(Record(self._count, now, component, action, subject, actor, uid, revision, outcome))

    def __len__(self) -> int:
        return len(self._ring)

    def since(self, number: int = 0) -> Iterator[Record]:
        """Records after the one of that number, oldest first."""
        return (record for record in list(self._ring) if record.number > number)

    def about(self, *, uid: str = "", subject: str = "") -> Iterator[Record]:
        """Records of one object, by its uid or by what it is called."""
        return (
            record
            for record in list(self._ring)
            if (uid and record.uid == uid) or (subject and record.subject == subject)
        )


__all__ = ["CAPACITY", "FlightRecorder", "Record"]
