"""The timeline of a pod from the cause of its creation until its services lead to it, computed from records of the
flight recorder.

Fourteen steps have a number, which is the same for every pod. Other records appear between them without a number. The
changes that made a controller create the pod come first (`pod_cause`). The critical path is the chain of steps and
waits without which the pod would have been Running earlier; a step that ran beside it is not part of it. Steps can have
parts, such as the plugins and webhooks that admitted the pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sampan.diagnosis.pod_cause import OwnerRecords, describe_cause, find_cause
from sampan.machinery.telemetry.flight_recorder import QUEUE, parse_parts

STEPS = (
    "store the pod",
    "choose a node",
    "bind to the node",
    "see and admit",
    "create cgroups",
    "create data directories",
    "mount volumes",
    "run sandbox",
    "pull image",
    "start container",
    "report status",
    "add to EndpointSlice",
    "add to proxy rules",
    "add to DNS",
)
_NUMBERS = {name: number for number, name in enumerate(STEPS, start=1)}
_ORDER: Mapping[str, float] = {**_NUMBERS, QUEUE: 1.5}
"""The order in which steps have their effects. A pod is stored before it is queued, and queued before a node is
chosen."""
_FIRST_PUBLICATION = 12
_MAX_PUBLICATION_S = 60.0
"""The maximum time between the readiness of a pod and its publication as a part of its start. A later publication
belongs to a service that was created later."""
_MIN_WAIT_S = 0.001
"""Shorter gaps between two steps are not shown as waits."""
CONTROLLER_ACCOUNTS = "system:serviceaccount:kube-system:"
_NODE_USER = "system:node:"
_DONE = ("Running", "Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStep:
    """Something that a component did to the pod, or the wait before it."""

    name: str
    component: str
    start: float
    """Seconds since the Unix epoch."""
    end: float
    detail: str = ""
    actor: str = ""
    """The user who requested the step from the API server."""
    state: str = ""
    """The state of the pod that the step reported to the API server, such as `Running, ready`."""
    is_wait: bool = False
    parts: tuple[TimelineStep, ...] = ()
    """The parts of the step, in the order of time."""

    @property
    def number(self) -> int:
        """The number of the step among the fourteen numbered steps; 0 for any other step."""
        return _NUMBERS.get(self.name, 0)

    @property
    def order(self) -> float:
        return _ORDER.get(self.name, 0)

    @property
    def is_publication(self) -> bool:
        """Whether the step published the address of the pod: in an EndpointSlice, in proxy rules or in DNS."""
        return self.number >= _FIRST_PUBLICATION

    @property
    def took_s(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTimeline:
    steps: Sequence[TimelineStep]
    """All steps, and the waits on the critical path, in the order of their starts."""
    path: Mapping[TimelineStep, float] = field(default_factory=dict)
    """The critical path to Running, in the order of time: the seconds by which each step delayed it. It is empty unless
    the pod has reached Running."""
    running: float | None = None
    """The time at which the API server knew that the pod was Running or had ended."""
    ready: float | None = None
    published: float | None = None
    """The time at which the last of EndpointSlices, proxy rules and DNS first had the pod, if that was part of its
    start."""

    first_state: str = ""
    """The state of the pod at the time `running`."""
    state: str = ""
    """The last reported state of the pod."""

    @property
    def start(self) -> float:
        return self.steps[0].start if self.steps else 0.0

    @property
    def end(self) -> float:
        return max((step.end for step in self.steps), default=0.0)

    @property
    def started(self) -> PodTimeline:
        """The timeline until the pod was ready and its services led to it, or Running if it never became ready."""
        end = self.ready or self.running
        if end is None:
            return self
        last = max(end, self.published or 0.0)
        steps = [step for step in self.steps if step.start < end or (step.is_publication and step.start <= last)]
        return replace(self, steps=steps)

    def share(self, step: TimelineStep) -> float:
        """Return the share of the time to Running for which the step accounts, from 0 to 1."""
        if self.running is None or self.running <= self.start:
            return 0.0
        return self.path.get(step, 0.0) / (self.running - self.start)


def timeline(records: Sequence[Mapping[str, Any]], owners: Sequence[OwnerRecords] = ()) -> PodTimeline:
    """Return the timeline of a pod. `owners` have the records of the objects that own it, such as a Deployment."""
    steps = [step for record in records for step in _steps(record)]
    creation = next((record for record in records if _name(record) == STEPS[0]), None)
    if creation is not None:
        steps += [replace(_step(record), name=describe_cause(record)) for record in find_cause(creation, owners)]
    steps = sorted(_drop_covered(steps), key=lambda step: (step.start, step.end))
    reports = [step for step in steps if step.state]
    last = next((step for step in reports if step.state.startswith(_DONE)), None)
    ready = next((step.end for step in reports if step.state.startswith("Running, ready")), None)
    line = PodTimeline(
        steps=steps,
        ready=ready,
        published=_find_publication_time(steps, ready),
        state=reports[-1].state if reports else "",
    )
    if last is None:
        return line
    path = _critical_path(steps, last)
    waits = [step for step in path if step.is_wait]
    shown = sorted([*steps, *waits], key=lambda step: (step.start, step.end))
    return replace(line, steps=shown, path=path, running=last.end, first_state=last.state)


def _find_publication_time(steps: Sequence[TimelineStep], ready: float | None) -> float | None:
    """Return the time at which the last of the three kinds of publication first happened. Publications later than a
    limit after the pod was ready are ignored."""
    if ready is None:
        return None
    first: dict[str, float] = {}
    for step in steps:
        if step.is_publication and step.end <= ready + _MAX_PUBLICATION_S:
            first.setdefault(step.name, step.end)
    return max(first.values(), default=None)


def _steps(record: Mapping[str, Any]) -> Iterator[TimelineStep]:
    """Yield the step of a record. The wait of a pod in the scheduling queue is a separate step."""
    step = _step(record)
    yield from (part for part in step.parts if part.name == QUEUE)
    yield replace(step, parts=tuple(part for part in step.parts if part.name != QUEUE))


def _step(record: Mapping[str, Any]) -> TimelineStep:
    component, start = str(record["component"]), record["time"] - record.get("took", 0.0)
    parts = tuple(
        TimelineStep(name=name, component=component, start=start + start_s, end=start + start_s + took_s)
        for name, start_s, took_s in parse_parts(str(record.get("parts", "")))
    )
    return TimelineStep(
        name=_name(record),
        component=component,
        start=start,
        end=record["time"],
        detail=_detail(record),
        actor=str(record.get("actor", "")),
        state=_state(record),
        parts=parts,
    )


def _state(record: Mapping[str, Any]) -> str:
    """Return the state of the pod that a write of its status has reported, whoever wrote it."""
    is_report = record["component"].startswith("kubelet/") and record["action"] == STEPS[10]
    return str(record.get("outcome" if is_report else "state", ""))


def _name(record: Mapping[str, Any]) -> str:
    component, action, subject = record["component"], record["action"], str(record.get("subject", ""))
    parts = subject.split("/")
    if component == "kube-scheduler":
        if action == "bind":
            return STEPS[2]
        return STEPS[1] if action == "schedule" and " " not in record.get("outcome", "") else str(action)
    if component != "apiserver":
        return str(action)
    if parts[0] != "pods" or len(parts) > 4:
        return f"{action} {parts[0].partition('.')[0]}"
    is_creation = action == "create" or record.get("outcome") == "201"  # a server-side apply is a patch
    if is_creation and len(parts) == 3:
        return STEPS[0]
    if action == "patch" and parts[3:] == ["status"] and str(record.get("actor", "")).startswith(_NODE_USER):
        return STEPS[10]
    return " ".join([str(action), *parts[3:]])


def _detail(record: Mapping[str, Any]) -> str:
    actor, outcome = str(record.get("actor", "")).removeprefix(CONTROLLER_ACCOUNTS), str(record.get("outcome", ""))
    if record["component"] == "apiserver":
        outcome = str(record.get("state", "")) if outcome.startswith("2") and " " not in outcome else outcome
    return " ".join(part for part in (outcome, f"by {actor}" if actor else "") if part)


def _drop_covered(steps: Sequence[TimelineStep]) -> list[TimelineStep]:
    """Remove writes of the API server that are contained in a step of the kubelet with the same name."""
    outer = [step for step in steps if step.component.startswith("kubelet/")]

    def is_covered(step: TimelineStep) -> bool:
        return step.component == "apiserver" and any(
            other.name == step.name and other.start <= step.end <= other.end + _MIN_WAIT_S for other in outer
        )

    return [step for step in steps if not is_covered(step)]


def _critical_path(steps: Sequence[TimelineStep], last: TimelineStep) -> dict[TimelineStep, float]:
    """Return the critical path, found by walking back from the last step: each step had to wait for the step that ended
    latest before it started.

    A step may start when the numbered step before it has had its effect but has not ended: the kubelet sees a bound pod
    before the scheduler has the response to the binding. In this case only the time until that start counts.
    """
    path, current = {last: last.took_s}, last
    while (before := _predecessor(steps, current)) is not None:
        end = min(before.end, current.start)
        if current.start - end > _MIN_WAIT_S:
            wait = TimelineStep(name="wait", component=_origin(current), start=end, end=current.start, is_wait=True)
            path[wait] = wait.took_s
        path[before] = end - before.start
        current = before
    return dict(reversed(path.items()))


def _origin(step: TimelineStep) -> str:
    """Return the component that started the step, for which the step has waited: the API server only serves it."""
    if step.component != "apiserver" or not step.actor:
        return step.component
    if step.actor.startswith(_NODE_USER):
        return f"kubelet/{step.actor.removeprefix(_NODE_USER)}"
    return step.actor.rpartition(":")[2]


def _predecessor(steps: Sequence[TimelineStep], current: TimelineStep) -> TimelineStep | None:
    """Return the step that the current step had to wait for: the latest earlier step of the same component, or else of
    another one. The API server has no such preference for its own steps, because it acts on behalf of other components.
    Reports of the status and publications are skipped, because other steps never wait for them."""
    latest = current.start + _MIN_WAIT_S
    earlier = [
        step
        for step in steps
        if step.start < current.start
        and not step.state
        and not step.is_publication
        and (step.end <= latest or 0 < step.order < current.order)
    ]

    def rank(step: TimelineStep) -> tuple[bool, float, float]:
        is_same = step.component == current.component != "apiserver"
        return is_same, min(step.end, current.start), step.order

    return max(earlier, key=rank, default=None)


def timeline_value(line: PodTimeline) -> dict[str, Any]:
    """Return the timeline as a value for JSON. Times are seconds since the first step."""
    value: dict[str, Any] = {"start": line.start, "steps": [_step_value(line, step) for step in line.steps]}
    if line.state:
        value["state"] = line.state
    if line.running is not None:
        key = "failedAfterSeconds" if line.first_state.startswith("Failed") else "runningAfterSeconds"
        value[key] = line.running - line.start
    if line.ready is not None:
        value["readyAfterSeconds"] = line.ready - line.start
    if line.published is not None:
        value["publishedAfterSeconds"] = line.published - line.start
    return value


def _step_value(line: PodTimeline, step: TimelineStep) -> dict[str, Any]:
    value: dict[str, Any] = {
        "name": step.name,
        "component": step.component,
        "startSeconds": step.start - line.start,
        "durationSeconds": step.took_s,
        "isOnCriticalPath": step in line.path,
    }
    if step.number:
        value["number"] = step.number
    if step.detail:
        value["detail"] = step.detail
    if step.parts:
        value["parts"] = [
            {"name": part.name, "startSeconds": part.start - line.start, "durationSeconds": part.took_s}
            for part in step.parts
        ]
    return value
