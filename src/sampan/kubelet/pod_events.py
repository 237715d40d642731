"""Events about pods and nodes, with the reasons and messages of the Kubernetes kubelet."""

from collections.abc import Mapping
from typing import Any

from sampan.api import gotext
from sampan.api.semantics.pods import AnyContainer
from sampan.api.types.core_v1 import ObjectReference, Pod
from sampan.kubelet.records import NodeRecord
from sampan.machinery.events import NORMAL, WARNING, EventRecorder
from sampan.machinery.events.recorder import reference


class PodEvents:
    """Event sink of the kubelet; without a recorder, events are discarded."""

    def __init__(self, recorder: EventRecorder | None) -> None:
        self._recorder = recorder

    def pod(
        self,
        kubelet: NodeRecord,
        pod: Pod,
        type: str,
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        if self._recorder is not None:
            self._recorder.event(pod, type, reason, message, annotations=annotations, host=kubelet.name)

    def about(self, kubelet: NodeRecord, obj: Any, type: str, reason: str, message: str) -> None:
        """Record an event about an arbitrary object."""
        if self._recorder is not None:
            self._recorder.event(obj, type, reason, message, host=kubelet.name)

    def node(self, kubelet: NodeRecord, reason: str, message: str, type: str = NORMAL) -> None:
        if self._recorder is not None:
            about = ObjectReference(kind="Node", name=kubelet.name, uid=kubelet.name, apiVersion="")
            self._recorder.event(about, type, reason, message, host=kubelet.name)

    def node_status(self, kubelet: NodeRecord, reason: str) -> None:
        self.node(kubelet, reason, f"Node {kubelet.name} status is now: {reason}")

    def pulled(self, kubelet: NodeRecord, pod: Pod, container: AnyContainer) -> None:
        text = f"Container image {gotext.quote(container.image)} already present on machine"
        self._container(kubelet, pod, container, NORMAL, "Pulled", text)

    def created(self, kubelet: NodeRecord, pod: Pod, container: AnyContainer) -> None:
        self._container(kubelet, pod, container, NORMAL, "Created", "Container created")

    def started(self, kubelet: NodeRecord, pod: Pod, container: AnyContainer) -> None:
        self._container(kubelet, pod, container, NORMAL, "Started", "Container started")

    def killing(self, kubelet: NodeRecord, pod: Pod, container: AnyContainer, why: str = "") -> None:
        self._container(kubelet, pod, container, NORMAL, "Killing", why or f"Stopping container {container.name}")

    def container(
        self, kubelet: NodeRecord, pod: Pod, container: AnyContainer, type: str, reason: str, message: str
    ) -> None:
        self._container(kubelet, pod, container, type, reason, message)

    def back_off(self, kubelet: NodeRecord, pod: Pod, container: AnyContainer) -> None:
        text = f"Back-off restarting failed container {container.name} in pod {full_name(pod)}"
        self._container(kubelet, pod, container, WARNING, "BackOff", text)

    def pulling(self, kubelet: NodeRecord, pod: Pod, container: AnyContainer) -> None:
        text = f"Pulling image {gotext.quote(container.image)}"
        self._container(kubelet, pod, container, NORMAL, "Pulling", text)

    def pull_failed(self, kubelet: NodeRecord, pod: Pod, container: AnyContainer, why: str) -> None:
        text = f"Failed to pull image {gotext.quote(container.image)}: {why}"
        self._container(kubelet, pod, container, WARNING, "Failed", text)

    def failed(self, kubelet: NodeRecord, pod: Pod, container: AnyContainer, why: str) -> None:
        self._container(kubelet, pod, container, WARNING, "Failed", f"Error: {why}")

    def pull_back_off(self, kubelet: NodeRecord, pod: Pod, container: AnyContainer) -> None:
        text = f"Back-off pulling image {gotext.quote(container.image)}"
        self._container(kubelet, pod, container, NORMAL, "BackOff", text)

    def _container(
        self, kubelet: NodeRecord, pod: Pod, container: AnyContainer, type: str, reason: str, message: str
    ) -> None:
        if self._recorder is not None:
            about = reference(pod, _field_path(pod, container.name))
            self._recorder.event(about, type, reason, message, host=kubelet.name)


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
