"""Records scheduling decisions: events, the flight recorder, and the most recent decisions for `sampan why`."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from sampan.machinery.clock import Clock
from sampan.machinery.flight_recorder import FlightRecorder
from sampan.scheduler.cache.pod_info import DEFAULT_SCHEDULER, PodInfo
from sampan.scheduler.cycle.event_recorder import NORMAL, WARNING, PodEventRecorder
from sampan.scheduler.framework.diagnosis import Diagnosis
from sampan.scheduler.framework.framework import ScheduleResult
from sampan.scheduler.queue.queued_pod import QueuedPodInfo

COMPONENT = "kube-scheduler"


class DecisionRecorder:
    def __init__(
        self, *, events: PodEventRecorder, history: DecisionHistory, clock: Clock, recorder: FlightRecorder | None
    ) -> None:
        self._events, self._history, self._clock, self._recorder = events, history, clock, recorder

    def node_selected(self, queued: QueuedPodInfo, node_selected: ScheduleResult, node: str) -> None:
        info = queued.info
        self._history.put(
            SchedulingDecision(
                info.uid,
                info.full_name,
                self._clock.now(),
                queued.attempts,
                node=node,
                feasible=node_selected.feasible,
                score=node_selected.score,
            )
        )
        self._record_flight(info, node)

    def unschedulable(
        self, queued: QueuedPodInfo, diagnosis: Diagnosis, names: tuple[str, ...], nominated: str
    ) -> None:
        """Record a pod that fits no node; `names` are the node names by row."""
        self._history.put(
            SchedulingDecision(
                queued.uid,
                queued.info.full_name,
                self._clock.now(),
                queued.attempts,
                message=diagnosis.message,
                diagnosis=diagnosis,
                names=names,
                nominated=nominated,
            )
        )

    def failed(self, info: PodInfo, message: str) -> None:
        self.publish_event(info, WARNING, "FailedScheduling", "Scheduling", message)
        self._record_flight(info, message)

    def skipped(self, info: PodInfo) -> None:
        note = f"skip schedule deleting pod: {info.full_name}"
        self.publish_event(info, WARNING, "FailedScheduling", "Scheduling", note)

    def bound(self, info: PodInfo, node: str) -> None:
        self.publish_event(info, NORMAL, "Scheduled", "Binding", f"Successfully assigned {info.full_name} to {node}")

    def _record_flight(self, info: PodInfo, outcome: str) -> None:
        if self._recorder is not None:
            self._recorder.note(COMPONENT, "schedule", f"pods/{info.full_name}", uid=info.uid, outcome=outcome)

    def publish_event(self, info: PodInfo, type: str, reason: str, action: str, note: str) -> None:
        self._events.record(
            info.pod, type, reason, action, note, source=info.pod.spec.schedulerName or DEFAULT_SCHEDULER
        )


_MOST = 2000
_MOST_WITH_NODES = 200
"""How many failed decisions keep the verdict of every node."""


@dataclass(frozen=True, slots=True)
class SchedulingDecision:
    uid: str
    pod: str
    """The pod as `namespace/name`."""
    time: float
    attempt: int
    node: str = ""
    feasible: int = 0
    score: int = 0
    message: str = ""
    diagnosis: Diagnosis | None = None
    names: tuple[str, ...] = ()
    """The node names by row that the diagnosis refers to."""
    nominated: str = ""


class DecisionHistory:
    def __init__(self) -> None:
        self._by_uid: OrderedDict[str, SchedulingDecision] = OrderedDict()
        self._detailed: OrderedDict[str, None] = OrderedDict()

    def put(self, decision: SchedulingDecision) -> None:
        self._by_uid[decision.uid] = decision
        self._by_uid.move_to_end(decision.uid)
        if len(self._by_uid) > _MOST:
            oldest, _ = self._by_uid.popitem(last=False)
            self._detailed.pop(oldest, None)
        if decision.diagnosis is not None:
            self._keep_detail(decision.uid)

    def of(self, uid: str) -> SchedulingDecision | None:
        return self._by_uid.get(uid)

    def last(self) -> list[SchedulingDecision]:
        return list(self._by_uid.values())

    def _keep_detail(self, uid: str) -> None:
        self._detailed[uid] = None
        self._detailed.move_to_end(uid)
        if len(self._detailed) > _MOST_WITH_NODES:
            old, _ = self._detailed.popitem(last=False)
            decision = self._by_uid.get(old)
            if decision is not None:
                self._by_uid[old] = SchedulingDecision(
                    decision.uid,
                    decision.pod,
                    decision.time,
                    decision.attempt,
                    message=decision.message,
                    nominated=decision.nominated,
                )
