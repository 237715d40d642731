"""Carries out in-place resizes, one pod at a time (`pkg/kubelet/allocation`)."""

from __future__ import annotations

import asyncio
import logging

from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import Container, ResourceRequirements
from sampan.kubelet import admission
from sampan.kubelet.agent import resizing
from sampan.kubelet.cgroups import PodCgroups
from sampan.kubelet.container_config.resources import container_resources
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.pod_status import WHOLE_POD
from sampan.kubelet.records import PodRecord
from sampan.machinery.events import NORMAL, WARNING
from sampan.runtimes import contract
from sampan.runtimes.contract import PodReport, Runtime, RuntimeFailure

log = logging.getLogger(__name__)

_RETRY_S = 30.0


class Resizer:
    def __init__(self, *, runtime: Runtime, groups: PodCgroups, events: PodEvents, node_memory: int) -> None:
        self._runtime, self._groups, self._events, self._node_memory = runtime, groups, events, node_memory

    def started(self, record: PodRecord, container: Container) -> None:
        """Record that a container now runs with the resources of its spec."""
        (record.restarts or set()).discard(container.name)
        record.actuated = {**(record.actuated or {}), container.name: container.resources}

    async def sync(self, record: PodRecord, report: PodReport) -> float | None:
        """Apply the resources of the spec to running containers. Return the seconds until a retry, or None."""
        pending, is_whole = self._pending(record, report), self._is_whole_pending(record, report)
        if not pending and not is_whole:
            self._done(record)
            return None
        pod, kubelet = record.pod, record.kubelet
        free = resizing.others(kubelet.used, record.wanted)
        if (refused := resizing.refusal(pod, kubelet.node, free)) is not None:
            self._refuse(record, refused)
            return _RETRY_S if refused[0] == resizing.DEFERRED else None
        if record.resize is None or record.resize[0] == resizing.PENDING:
            record.resize = (resizing.IN_PROGRESS, "", "")
            text = f"Pod resize started: {resizing.summary(pod)}"
            self._events.pod(kubelet, pod, NORMAL, "ResizeStarted", text)
        record.free()
        record.count(admission.amounts_of(pod))
        try:
            await self._carry_out(record, pending)
        except (RuntimeFailure, OSError) as error:
            self._fail(record, str(error))
            return _RETRY_S
        if is_whole and record.pod.spec.resources is not None:
            record.actuated = {**(record.actuated or {}), WHOLE_POD: record.pod.spec.resources}
        if not self._pending(record, report):
            self._done(record)
        return None

    def _pending(self, record: PodRecord, report: PodReport) -> list[tuple[Container, set[str]]]:
        pending = []
        for container in init_and_main_containers(record.pod.spec):
            present = report.container(container.name)
            if present is None or present.state != contract.RUNNING:
                continue
            if names := resizing.changed(container.resources, self._present(record, container)):
                pending.append((container, names))
        return pending

    def _is_whole_pending(self, record: PodRecord, report: PodReport) -> bool:
        """Whether the pod-level resources differ from those applied."""
        desired_resources, reported_resources = record.pod.spec.resources, record.pod.status.resources
        if desired_resources is None or not report.is_sandbox_ready:
            return False
        actuated = (record.actuated or {}).get(WHOLE_POD)
        if actuated is None:
            actuated = reported_resources if reported_resources is not None else desired_resources
            record.actuated = {**(record.actuated or {}), WHOLE_POD: actuated}
        return bool(resizing.changed(desired_resources, actuated))

    def _present(self, record: PodRecord, container: Container) -> ResourceRequirements:
        """Return the resources that the container runs with, as reported by this kubelet or the one before it."""
        actuated = (record.actuated or {}).get(container.name)
        if actuated is None:
            statuses = (*record.pod.status.containerStatuses, *record.pod.status.initContainerStatuses)
            reported_resources = next((status.resources for status in statuses if status.name == container.name), None)
            actuated = reported_resources if reported_resources is not None else container.resources
            record.actuated = {**(record.actuated or {}), container.name: actuated}
        return actuated

    async def _carry_out(self, record: PodRecord, pending: list[tuple[Container, set[str]]]) -> None:
        """Apply the changes. The pod's cgroup first gets the larger of the old and the new limits, so that it never
        falls below the sum of its containers.
        """
        pod = record.pod
        await asyncio.to_thread(self._groups.widen, pod)
        for container, names in pending:
            if resizing.needs_restart(container, names):
                record.restarts = {*(record.restarts or ()), container.name}
                continue
            resources = container_resources(pod, container, node_memory=self._node_memory)
            await self._runtime.update_resources(pod, container.name, resources)
            self.started(record, container)
        if not record.restarts:
            await asyncio.to_thread(self._groups.ensure, pod)

    def _refuse(self, record: PodRecord, refused: tuple[str, str]) -> None:
        resize = (resizing.PENDING, *refused)
        if record.resize == resize:
            return
        record.resize = resize
        reason, message = refused
        text = f"Pod resize {reason}: {resizing.summary(record.pod, message)}"
        self._events.pod(record.kubelet, record.pod, WARNING, f"Resize{reason}", text)

    def _fail(self, record: PodRecord, message: str) -> None:
        record.resize = (resizing.IN_PROGRESS, resizing.ERROR, message)
        text = f"Pod resize error: {resizing.summary(record.pod, message)}"
        self._events.pod(record.kubelet, record.pod, WARNING, "ResizeError", text)

    def _done(self, record: PodRecord) -> None:
        if record.resize is not None and record.resize[0] == resizing.IN_PROGRESS:
            text = f"Pod resize completed: {resizing.summary(record.pod)}"
            self._events.pod(record.kubelet, record.pod, NORMAL, "ResizeCompleted", text)
        record.resize = None
