"""The life of a pod on a hollow node: its containers are simulated, and of what precedes them only the objects that the
pod refers to are checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sampan.api.go_compat import gotext
from sampan.api.limits import HOLLOW_CONTAINERS
from sampan.api.semantics.pods import AnyContainer, all_containers, as_container, init_and_main_containers
from sampan.api.types.core_v1 import Container, Pod, PodStatus
from sampan.host.clock import Clock
from sampan.kubelet.container_starter import PULL_BACK_OFF
from sampan.kubelet.hollow_references import HollowReferences
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.pod_lifecycle import ContainerKill, ReportedFailure
from sampan.kubelet.pod_status import PodFailure
from sampan.kubelet.records import PodRecord
from sampan.kubelet.volumes.manager import FAILED_MOUNT
from sampan.machinery.events import WARNING
from sampan.runtimes.contract import CREATED, PodReport, RuntimeFailure
from sampan.runtimes.hollow.behavior import annotation_errors

INVALID_ANNOTATION = "InvalidHollowAnnotation"
"""The reason of the event about an annotation for hollow containers that has no effect."""


class HollowStart(NamedTuple):
    """A container that was started at a monotonic time."""

    container: Container
    began: float
    is_pulling: bool


class HollowPodLifecycle:
    """Implements PodLifecycle for all nodes of a fleet."""

    def __init__(self, *, events: PodEvents, clock: Clock, references: HollowReferences) -> None:
        self._events, self._clock, self._references = events, clock, references
        self._starting: dict[str, list[HollowStart]] = {}
        """The containers of each pod whose start has not been announced, because they do not run yet."""

    def has_slow_start(self) -> bool:
        return False

    def has_leftovers(self, pod: Pod) -> bool:
        return False

    def admission_failure(self, pod: Pod) -> PodFailure | None:
        count = len(all_containers(pod.spec))
        if count <= HOLLOW_CONTAINERS:
            return None
        text = f"The pod has {count} containers; a hollow node runs pods of up to {HOLLOW_CONTAINERS} containers"
        return PodFailure(reason="TooManyContainers", message=text)

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
        pod, node = record.pod, record.node
        if failures := await self._references.find_mount_failures(pod, node.api_node):
            self._references.follow(pod)
            for text in failures:
                self._events.record_pod_event(node, pod, WARNING, FAILED_MOUNT, text)
            raise ReportedFailure(FAILED_MOUNT, failures[0])

    async def run_sandbox(self, record: PodRecord) -> None:
        await record.node.runtime.run_sandbox(record.pod, None)
        annotations = record.pod.metadata.annotations
        names = [container.name for container in init_and_main_containers(record.pod.spec)] if annotations else ()
        for text in annotation_errors(annotations, names):
            self._events.record_pod_event(record.node, record.pod, WARNING, INVALID_ANNOTATION, text)

    async def start_container(self, record: PodRecord, container: AnyContainer, attempt: int) -> None:
        node, pod, plain = record.node, record.pod, as_container(container)
        is_pulling = await self._pull(record, plain)
        try:
            await self._references.check_variables(record, plain, self.report(record))
        except RuntimeFailure as failure:
            self._references.follow(pod)
            self._events.record_failed(node, pod, container, failure.message)
            raise
        await node.runtime.start_container(pod, plain, attempt, None)
        self._starting.setdefault(record.uid, []).append(HollowStart(plain, self._clock.monotonic(), is_pulling))
        self._announce_starts(record, self.report(record))

    def _announce_starts(self, record: PodRecord, report: PodReport) -> None:
        """Record the events of the containers that run by now: their pull and their start take the time that their
        behavior says."""
        waiting = []
        for start in self._starting.pop(record.uid, ()):
            container, present = start.container, report.container(start.container.name)
            if present is not None and present.state == CREATED:
                waiting.append(start)
                continue
            if start.is_pulling:
                took_s = self._clock.monotonic() - start.began
                self._events.record_pull_done(record.node, record.pod, container, 0, took_s=took_s)
            self._events.record_created(record.node, record.pod, container)
            self._events.record_started(record.node, record.pod, container)
        if waiting:
            self._starting[record.uid] = waiting

    async def _pull(self, record: PodRecord, container: Container) -> bool:
        """Pull the image. Return whether the pull continues. Raise RuntimeFailure if it fails or is backing off."""
        node, pod, now = record.node, record.pod, self._clock.monotonic()
        back_off = record.progress.pull_back_off(container.image)
        if back_off.remaining_s(back_off.since, now) > 0:
            self._events.record_pull_back_off(node, pod, container)
            text = f"Back-off pulling image {gotext.quote(container.image)}: {back_off.why}"
            raise RuntimeFailure(PULL_BACK_OFF, text)
        try:
            result = await node.runtime.pull_image(pod, container, None)
        except RuntimeFailure as failure:
            back_off.lengthen(now, now)
            back_off.why = f"{failure.reason}: {failure.message}"
            self._events.record_pulling(node, pod, container)
            self._events.record_pull_failed(node, pod, container, failure.message)
            self._events.record_failed(node, pod, container, failure.reason)
            if missing := await self._references.find_missing_pull_secrets(pod):
                self._events.record_missing_pull_secrets(node, pod, missing)
            raise
        announce = self._events.record_pulling if result.continues else self._events.record_pulled
        announce(node, pod, container)
        return result.continues

    async def stop_container(self, record: PodRecord, name: str, grace_s: float) -> None:
        await record.node.runtime.stop_container(record.pod, name, grace_s)

    async def sync_running(self, record: PodRecord, report: PodReport) -> float | None:
        self._references.settle(record.pod, report)
        if record.uid in self._starting:
            self._announce_starts(record, report)
        return None

    async def release_devices(self, record: PodRecord) -> None:
        return None

    async def release(self, record: PodRecord) -> None:
        await self.remove(record)

    async def remove(self, record: PodRecord) -> None:
        self._references.forget(record.uid)
        self._starting.pop(record.uid, None)
        await record.node.runtime.remove_pod(record.uid)
