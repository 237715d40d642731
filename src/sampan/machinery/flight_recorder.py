"""The flight recorder: recent actions and their outcomes, in a ring buffer of bounded size that every component writes.

A record is cheap (a struct in a deque) and names the component, the action, the object and the outcome. Records never
contain secrets: only names, versions and outcomes, never the contents of objects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from sampan.machinery.clock import Clock

CAPACITY = 20_000


class Record(msgspec.Struct, omit_defaults=True, gc=False, frozen=True):
    number: int
    """A sequence number, from 1, never reused; a gap at the start means that older records were dropped."""
    time: float
    component: str
    """One of `apiserver`, `kube-scheduler`, the name of a controller, or `kubelet/NODE`."""
    action: str
    """A verb such as create, patch, bind or start."""
    subject: str = ""
    """The object of the action: pods/NAMESPACE/NAME, or a path."""
    actor: str = ""
    """The user or component that requested the action."""
    uid: str = ""
    revision: str = ""
    """The resource version that resulted from the action."""
    outcome: str = ""
    """The result of the action: a status code, a reason, or the name of a node."""
    took: float = 0.0
    """The duration of the action in seconds, which ended at `time`."""


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
        took_s: float = 0.0,
    ) -> None:
        self._count += 1
        now = self._clock.now()
        self._ring.append(Record(self._count, now, component, action, subject, actor, uid, revision, outcome, took_s))

    def __len__(self) -> int:
        return len(self._ring)

    def since(self, number: int = 0) -> Iterator[Record]:
        """Return the records after the given sequence number, oldest first."""
        return (record for record in list(self._ring) if record.number > number)

    def about(self, uid: str, *, after: int = 0) -> Iterator[Record]:
        """Return the records of the object with this UID, oldest first; `after` is a sequence number."""
        return (record for record in list(self._ring) if record.uid == uid and record.number > after)
