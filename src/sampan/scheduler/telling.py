"""Publishes scheduling outcomes: events, the flight recorder and the history of decisions."""

from __future__ import annotations

from sampan.machinery.clock import Clock
from sampan.machinery.flight_recorder import FlightRecorder
from sampan.scheduler.diagnosis import Diagnosis
from sampan.scheduler.events import NORMAL, WARNING, Events
from sampan.scheduler.framework.profile import Placed
from sampan.scheduler.history import Decision, History
from sampan.scheduler.pod_info import DEFAULT_SCHEDULER, PodInfo
from sampan.scheduler.queued import Queued

COMPONENT = "kube-scheduler"


class Telling:
    def __init__(self, *, events: Events, history: History, clock: Clock, recorder: FlightRecorder | None) -> None:
        self._events, self._history, self._clock, self._recorder = events, history, clock, recorder

    def placed(self, queued: Queued, placed: Placed, node: str) -> None:
        info = queued.info
        self._history.put(
            Decision(
                info.uid,
                info.full_name,
                self._clock.now(),
                queued.attempts,
                node=node,
                feasible=placed.feasible,
                score=placed.score,
            )
        )
        self._record(info, node)

    def unplaced(self, queued: Queued, diagnosis: Diagnosis, names: tuple[str, ...], nominated: str) -> None:
        """Record a pod that fits no node; `names` are the node names by row."""
        self._history.put(
            Decision(
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
        self.say(info, WARNING, "FailedScheduling", "Scheduling", message)
        self._record(info, message)

    def skipped(self, info: PodInfo) -> None:
        note = f"skip schedule deleting pod: {info.full_name}"
        self.say(info, WARNING, "FailedScheduling", "Scheduling", note)

    def bound(self, info: PodInfo, node: str) -> None:
        self.say(info, NORMAL, "Scheduled", "Binding", f"Successfully assigned {info.full_name} to {node}")

    def _record(self, info: PodInfo, outcome: str) -> None:
        if self._recorder is not None:
            self._recorder.note(COMPONENT, "schedule", f"pods/{info.full_name}", uid=info.uid, outcome=outcome)

    def say(self, info: PodInfo, type: str, reason: str, action: str, note: str) -> None:
        self._events.say(info.pod, type, reason, action, note, source=info.pod.spec.schedulerName or DEFAULT_SCHEDULER)
