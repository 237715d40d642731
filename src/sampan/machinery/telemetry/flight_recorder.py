"""The flight recorder: recent actions and their outcomes, in a ring buffer of bounded size that every component writes.

A record is cheap (a struct in a deque) and names the component, the action, the object and the outcome. The parts of a
step, such as the plugins and webhooks that admitted a request, are one text of its record, which takes less memory
than a record for each part. Records never contain secrets: only names, versions and outcomes, never the contents of
objects.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from sampan.api.types.core_v1 import ObjectReference
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.host.clock import Clock

_MAX_PARTS = 64
WEBHOOK = "webhook "
"""The start of the name of a part that is the call of an admission webhook."""
QUEUE = "wait in the queue"
"""The name of the part before a scheduling cycle: the time since the pod was first added to the queue."""

CAPACITY = 20_000
_MAX_RECORDED_PODS = 50
"""How many pods of one change get a record: a new service can select thousands of pods that have existed for days."""


class StepParts:
    """The parts of a step. As text they are separated by semicolons, and each is `NAME=START+DURATION` in microseconds
    since the start of the step."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._texts: list[str] = []

    def add(self, name: str, start: float, end: float) -> None:
        """Add a part; start and end are values of `time.perf_counter()`."""
        if len(self._texts) < _MAX_PARTS:
            self._texts.append(f"{name}={round((start - self._began) * 1e6)}+{round((end - start) * 1e6)}")

    def __str__(self) -> str:
        return ";".join(self._texts)


_current: ContextVar[StepParts | None] = ContextVar("step_parts", default=None)
"""The parts of the step that the current task carries out. Code far below the step adds its parts without knowing the
recorder."""


def current_parts() -> StepParts | None:
    """Return the parts of the current step that are collected so far, to which more can be added; None if they are not
    collected."""
    return _current.get()


@contextmanager
def collect_parts() -> Iterator[StepParts]:
    """Collect the parts of the step that the block carries out."""
    parts = StepParts()
    token = _current.set(parts)
    try:
        yield parts
    finally:
        _current.reset(token)


@contextmanager
def step_part(name: str) -> Iterator[None]:
    """Add the block as a part of the current step, even if it raises an exception."""
    parts, start = _current.get(), time.perf_counter()
    try:
        yield
    finally:
        if parts is not None:
            parts.add(name, start, time.perf_counter())


def parse_parts(text: str) -> Iterator[tuple[str, float, float]]:
    """Return the name, the start in seconds since the start of the step, and the duration in seconds of each part.
    Malformed parts are left out."""
    for part in text.split(";"):
        name, _, times = part.rpartition("=")
        start, _, took = times.partition("+")
        if name and start.removeprefix("-").isdecimal() and took.isdecimal():
            yield name, int(start) / 1e6, int(took) / 1e6


class FlightRecord(msgspec.Struct, omit_defaults=True, gc=False, frozen=True):
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
    parts: str = ""
    """The parts of the action, in the form of `StepParts`; one text takes less memory than many records."""
    state: str = ""
    """The state of the pod that a write of its status reports, such as `Running, ready`."""
    owner: str = ""
    """The UID of the controller that owns the object."""
    generation: int = 0
    """The generation of the object after the action; it rises with each change of the spec."""


class FlightRecorder:
    def __init__(self, *, clock: Clock, capacity: int = CAPACITY) -> None:
        self._clock = clock
        self._ring: deque[FlightRecord] = deque(maxlen=capacity)
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
        parts: str = "",
        state: str = "",
        owner: str = "",
        generation: int = 0,
    ) -> None:
        self._count += 1
        now, number = self._clock.now(), self._count
        fields = (subject, actor, uid, revision, outcome, took_s, parts, state, owner, generation)
        self._ring.append(FlightRecord(number, now, component, action, *fields))

    def __len__(self) -> int:
        return len(self._ring)

    def records_since(self, number: int = 0) -> Iterator[FlightRecord]:
        """Return the records after the given sequence number, oldest first."""
        return (record for record in list(self._ring) if record.number > number)

    def records_about(self, uid: str, *, after: int = 0) -> Iterator[FlightRecord]:
        """Return the records of the object with this UID, oldest first; `after` is a sequence number."""
        return (record for record in list(self._ring) if record.uid == uid and record.number > after)


class PodAddressTrace:
    """Records when a component starts to publish addresses of pods: in an EndpointSlice, in the rules of a service
    proxy, or in DNS records."""

    def __init__(self, *, recorder: FlightRecorder | None, component: str, action: str) -> None:
        self._recorder, self._component, self._action = recorder, component, action

    def record_endpoints(
        self, before: EndpointSlice | None, after: EndpointSlice, outcome: str, *, takes_not_ready: bool = False
    ) -> None:
        """Record the pods that the new state of a slice publishes and the old one did not: the pods that are ready, or
        with `takes_not_ready` all pods."""
        if self._recorder is not None:
            old_uids = {reference.uid for reference in _published_pods(before, takes_not_ready)} if before else set()
            pods = [pod for pod in _published_pods(after, takes_not_ready) if pod.uid not in old_uids]
            self.record_pods(pods, outcome)

    def record_pods(self, references: Iterable[ObjectReference | None], outcome: str) -> None:
        """Record the pods among the references of endpoints. Of a change with many pods, only the first are recorded:
        such a change is not the start of these pods."""
        if self._recorder is None:
            return
        pods = {ref.uid: ref for ref in references if ref is not None and ref.kind == "Pod" and ref.uid}
        for uid, ref in list(pods.items())[:_MAX_RECORDED_PODS]:
            subject = f"pods/{ref.namespace}/{ref.name}"
            self._recorder.note(self._component, self._action, subject, uid=uid, outcome=outcome)


def _published_pods(endpoint_slice: EndpointSlice, takes_not_ready: bool) -> list[ObjectReference]:
    return [
        endpoint.targetRef
        for endpoint in endpoint_slice.endpoints or ()
        if endpoint.targetRef is not None and (takes_not_ready or endpoint.conditions.ready is not False)
    ]
