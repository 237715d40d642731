"""Records the steps of pods in the flight recorder."""

from __future__ import annotations

from sampan.api.types.core_v1 import Pod
from sampan.machinery.flight_recorder import FlightRecorder


class Steps:
    """Discards everything if there is no recorder."""

    def __init__(self, *, recorder: FlightRecorder | None, node: str) -> None:
        self._recorder, self._component = recorder, f"kubelet/{node}"

    def note(self, pod: Pod, action: str, outcome: object = "") -> None:
        if self._recorder is not None:
            meta = pod.metadata
            subject = f"pods/{meta.namespace}/{meta.name}"
            self._recorder.note(self._component, action, subject, uid=meta.uid, outcome=str(outcome or ""))
