"""The life of a pod on a hollow node: its containers are simulated, so there is nothing to prepare or to clean up."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.api.go_compat import gotext
from sampan.api.semantics.pods import AnyContainer, as_container
from sampan.api.types.core_v1 import Container, Pod, PodStatus
from sampan.kubelet.container_starter import PULL_BACK_OFF
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.pod_lifecycle import ContainerKill
from sampan.kubelet.pod_status import PodFailure
from sampan.kubelet.records import PodRecord
from sampan.machinery.clock import Clock
from sampan.machinery.events import WARNING
from sampan.runtimes.contract import PodReport, RuntimeFailure
from sampan.runtimes.hollow.behaviour import annotation_errors

INVALID_ANNOTATION = "InvalidHollowAnnotation"
"""The reason of the event about an annotation for hollow containers that has no effect."""


class HollowPodLifecycle:
    """Implements PodLifecycle for all nodes of a fleet."""

    def __init__(self, *, events: PodEvents, clock: Clock) -> None:
        self._events, self._clock = events, clock

    def has_slow_start(self) -> bool:
        return False

    def has_leftovers(self, pod: Pod) -> bool:
        return False

    def admission_failure(self, pod: Pod) -> PodFailure | None:
        return None

    def permission_failure(self, pod: Pod) -> PodFailure | None:
        return None

    async def allocate_devices(self, record: PodRecord) -> PodFailure | None:
        return None

    def report(self, record: PodRecord) -> PodReport:
        return record.node.runtime.pod_report(record.pod)

    def extend_status(self, pod: Pod, status: PodStatus) -> PodStatus:
        return status

    def containers_to_kill(self, record: PodRecord, report: PodReport) -> Sequence[ContainerKill]:
        return ()

    async def prepare(self, record: PodRecord) -> None:
        return None

    async def run_sandbox(self, record: PodRecord) -> None:
        await record.node.runtime.run_sandbox(record.pod, None)
        for text in annotation_errors(record.pod) if record.pod.metadata.annotations else ():
            self._events.record_pod_event(record.node, record.pod, WARNING, INVALID_ANNOTATION, text)

    async def start_container(self, record: PodRecord, container: AnyContainer, attempt: int) -> None:
        node, pod, plain = record.node, record.pod, as_container(container)
        await self._pull(record, plain)
        await node.runtime.start_container(pod, plain, attempt, None)
        self._events.record_created(node, pod, plain)
        self._events.record_started(node, pod, plain)

    async def _pull(self, record: PodRecord, container: Container) -> None:
        """Pull the image. Raise RuntimeFailure if that fails or the pull is backing off."""
        node, pod, now = record.node, record.pod, self._clock.monotonic()
        back_off = record.progress.pull_back_off(container.image)
        if back_off.remaining_s(back_off.since, now) > 0:
            self._events.record_pull_back_off(node, pod, container)
            text = f"Back-off pulling image {gotext.quote(container.image)}: {back_off.why}"
            raise RuntimeFailure(PULL_BACK_OFF, text)
        try:
            await node.runtime.pull_image(pod, container, None)
        except RuntimeFailure as failure:
            back_off.lengthen(now, now)
            back_off.why = f"{failure.reason}: {failure.message}"
            self._events.record_pulling(node, pod, container)
            self._events.record_pull_failed(node, pod, container, failure.message)
            self._events.record_failed(node, pod, container, failure.reason)
            raise
        self._events.record_pulled(node, pod, container)

    async def stop_container(self, record: PodRecord, name: str, grace_s: float) -> None:
        await record.node.runtime.stop_container(record.pod, name, grace_s)

    async def sync_running(self, record: PodRecord, report: PodReport) -> float | None:
        return None

    async def release_devices(self, record: PodRecord) -> None:
        return None

    async def release(self, record: PodRecord) -> None:
        await self.remove(record)

    async def remove(self, record: PodRecord) -> None:
        await record.node.runtime.remove_pod(record.uid)
