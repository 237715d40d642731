"""Events about pods and nodes, with the reasons and messages of the Kubernetes kubelet, and traces of pods."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sampan.api.go_compat import gotext
from sampan.api.semantics.pods import AnyContainer
from sampan.api.types.core_v1 import ObjectReference, Pod
from sampan.api.values import durations
from sampan.kubelet.records import NodeRecord
from sampan.machinery.events import NORMAL, WARNING, EventRecorder, reference
from sampan.machinery.telemetry.flight_recorder import FlightRecorder, collect_parts
from sampan.runtimes.contract import RuntimeFailure


class PodEvents:
    """Event sink of the kubelet; without a recorder, events are discarded."""

    def __init__(self, recorder: EventRecorder | None) -> None:
        self._recorder = recorder

    def record_pod_event(
        self,
        node: NodeRecord,
        pod: Pod,
        type: str,
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        if self._recorder is not None:
            self._recorder.event(pod, type, reason, message, annotations=annotations, host=node.name)

    def record_event(self, node: NodeRecord, obj: Any, type: str, reason: str, message: str) -> None:
        """Record an event about an arbitrary object."""
        if self._recorder is not None:
            self._recorder.event(obj, type, reason, message, host=node.name)

    def record_node_event(self, node: NodeRecord, reason: str, message: str, type: str = NORMAL) -> None:
        if self._recorder is not None:
            uid = node.api_node.metadata.uid
            reference = ObjectReference(kind="Node", name=node.name, uid=uid, apiVersion="v1")
            self._recorder.event(reference, type, reason, message, host=node.name)

    def record_node_status(self, node: NodeRecord, reason: str) -> None:
        self.record_node_event(node, reason, f"Node {node.name} status is now: {reason}")

    def record_pulled(self, node: NodeRecord, pod: Pod, container: AnyContainer) -> None:
        text = f"Container image {gotext.quote(container.image)} already present on machine"
        self._record_container_event(node, pod, container, NORMAL, "Pulled", text)

    def record_pull_done(
        self, node: NodeRecord, pod: Pod, container: AnyContainer, size: int, *, took_s: float, waited_s: float = 0.0
    ) -> None:
        whole, took = (durations.format_duration(int(s * 1000) * 1_000_000) for s in (waited_s + took_s, took_s))
        text = f"Successfully pulled image {gotext.quote(container.image)} in {took} ({whole} including waiting)."
        self._record_container_event(node, pod, container, NORMAL, "Pulled", f"{text} Image size: {size} bytes.")

    def record_created(self, node: NodeRecord, pod: Pod, container: AnyContainer) -> None:
        self._record_container_event(node, pod, container, NORMAL, "Created", "Container created")

    def record_started(self, node: NodeRecord, pod: Pod, container: AnyContainer) -> None:
        self._record_container_event(node, pod, container, NORMAL, "Started", "Container started")

    def record_killing(self, node: NodeRecord, pod: Pod, container: AnyContainer, why: str = "") -> None:
        self._record_container_event(
            node, pod, container, NORMAL, "Killing", why or f"Stopping container {container.name}"
        )

    def record_container_event(
        self, node: NodeRecord, pod: Pod, container: AnyContainer, type: str, reason: str, message: str
    ) -> None:
        self._record_container_event(node, pod, container, type, reason, message)

    def record_back_off(self, node: NodeRecord, pod: Pod, container: AnyContainer) -> None:
        text = f"Back-off restarting failed container {container.name} in pod {full_name(pod)}"
        self._record_container_event(node, pod, container, WARNING, "BackOff", text)

    def record_pulling(self, node: NodeRecord, pod: Pod, container: AnyContainer) -> None:
        text = f"Pulling image {gotext.quote(container.image)}"
        self._record_container_event(node, pod, container, NORMAL, "Pulling", text)

    def record_pull_failed(self, node: NodeRecord, pod: Pod, container: AnyContainer, why: str) -> None:
        text = f"Failed to pull image {gotext.quote(container.image)}: {why}"
        self._record_container_event(node, pod, container, WARNING, "Failed", text)

    def record_failed(self, node: NodeRecord, pod: Pod, container: AnyContainer, why: str) -> None:
        self._record_container_event(node, pod, container, WARNING, "Failed", f"Error: {why}")

    def record_missing_pull_secrets(self, node: NodeRecord, pod: Pod, names: Sequence[str]) -> None:
        text = f"Unable to retrieve some image pull secrets ({', '.join(names)}); attempting to pull the image"
        self.record_pod_event(node, pod, WARNING, "FailedToRetrieveImagePullSecret", f"{text} may not succeed.")

    def record_pull_back_off(self, node: NodeRecord, pod: Pod, container: AnyContainer) -> None:
        text = f"Back-off pulling image {gotext.quote(container.image)}"
        self._record_container_event(node, pod, container, NORMAL, "BackOff", text)

    def _record_container_event(
        self, node: NodeRecord, pod: Pod, container: AnyContainer, type: str, reason: str, message: str
    ) -> None:
        if self._recorder is not None:
            object_reference = reference(pod, _field_path(pod, container.name))
            self._recorder.event(object_reference, type, reason, message, host=node.name)


def _field_path(pod: Pod, name: str) -> str:
    if not name:  # The image of an image volume has no container name.
        return ""
    if any(container.name == name for container in pod.spec.initContainers):
        return f"spec.initContainers{{{name}}}"
    if any(container.name == name for container in pod.spec.ephemeralContainers):
        return f"spec.ephemeralContainers{{{name}}}"
    return f"spec.containers{{{name}}}"


def full_name(pod: Pod) -> str:
    meta = pod.metadata
    return f"{meta.name}_{meta.namespace}({meta.uid})"


@dataclass(slots=True)
class TraceStep:
    """A step of a pod that is in progress."""

    outcome: str = ""


class PodTrace:
    """Records the steps of pods and their durations in the flight recorder, if there is one."""

    def __init__(self, *, recorder: FlightRecorder | None, node: str) -> None:
        self._recorder, self._component = recorder, f"kubelet/{node}"

    def note(self, pod: Pod, action: str, outcome: str = "", *, took_s: float = 0.0, parts: str = "") -> None:
        if self._recorder is not None:
            meta = pod.metadata
            subject = f"pods/{meta.namespace}/{meta.name}"
            self._recorder.note(
                self._component, action, subject, uid=meta.uid, outcome=outcome, took_s=took_s, parts=parts
            )

    @contextmanager
    def step(self, pod: Pod, action: str, outcome: str = "") -> Iterator[TraceStep]:
        """Record the `with` block, with the parts noted in it, as one step of the pod. If the block raises
        RuntimeFailure, the reason becomes the outcome. A cancelled step is not recorded."""
        step, began = TraceStep(outcome), time.perf_counter()
        with collect_parts() as parts:
            try:
                yield step
            except RuntimeFailure as failure:
                text = " ".join(part for part in (step.outcome, f"failed: {failure.reason}") if part)
                self.note(pod, action, text, took_s=time.perf_counter() - began, parts=str(parts))
                raise
        self.note(pod, action, step.outcome, took_s=time.perf_counter() - began, parts=str(parts))
