"""Carries out in-place resizes, one pod at a time (`pkg/kubelet/allocation`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from sampan.api.codec import json
from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import Container, Node, Pod, ResourceRequirements
from sampan.api.values.quantity import parse
from sampan.kubelet.admission import allocatable_of, amounts_of
from sampan.kubelet.cgroups import PodCgroups
from sampan.kubelet.container_config.resources import container_resources
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.pod_status import WHOLE_POD
from sampan.kubelet.records import Amounts, PodRecord
from sampan.machinery.events import NORMAL, WARNING
from sampan.runtimes import contract
from sampan.runtimes.contract import PodReport, Runtime, RuntimeFailure

_RETRY_S = 30.0


class PodResizer:
    def __init__(self, *, runtime: Runtime, cgroups: PodCgroups, events: PodEvents, node_memory: int) -> None:
        self._runtime, self._cgroups, self._events, self._node_memory = runtime, cgroups, events, node_memory

    def record_start(self, record: PodRecord, container: Container) -> None:
        """Record that a container now runs with the resources of its spec."""
        (record.progress.resize_restarts or set()).discard(container.name)
        record.progress.actuated = {**(record.progress.actuated or {}), container.name: container.resources}

    async def sync(self, record: PodRecord, report: PodReport) -> float | None:
        """Apply the resources of the spec to running containers. Return the seconds until a retry, or None."""
        pending, pod_names = self._find_pending_resizes(record, report), self._changed_pod_resources(record, report)
        if not pending and not pod_names:
            self._finish_resize(record)
            return None
        pod, node = record.pod, record.node
        used = subtract_amounts(node.used, record.progress.requests)
        if (rejection := resize_rejection(pod, node.api_node, used)) is not None:
            self._reject(record, rejection)
            return _RETRY_S if rejection[0] == DEFERRED else None
        if record.progress.resize is None or record.progress.resize[0] == PENDING:
            record.progress.resize = (IN_PROGRESS, "", "")
            text = f"Pod resize started: {summary(pod)}"
            self._events.record_pod_event(node, pod, NORMAL, "ResizeStarted", text)
        record.free()
        record.count(amounts_of(pod))
        try:
            await self._carry_out(record, pending)
        except (RuntimeFailure, OSError) as error:
            self._fail(record, str(error))
            return _RETRY_S
        if pod_names and record.pod.spec.resources is not None:
            record.progress.actuated = {**(record.progress.actuated or {}), WHOLE_POD: record.pod.spec.resources}
        if not self._find_pending_resizes(record, report):
            self._finish_resize(record)
        return None

    def _find_pending_resizes(self, record: PodRecord, report: PodReport) -> list[tuple[Container, set[str]]]:
        pending = []
        for container in init_and_main_containers(record.pod.spec):
            present = report.container(container.name)
            if present is None or present.state != contract.RUNNING:
                continue
            if names := changed_resources(container.resources, self._container_resources(record, container)):
                pending.append((container, names))
        return pending

    def _changed_pod_resources(self, record: PodRecord, report: PodReport) -> set[str]:
        """Return the names of the pod-level resources whose desired amounts have not been applied yet."""
        desired = record.pod.spec.resources
        if desired is None or not report.is_sandbox_ready:
            return set()
        return changed_resources(
            desired, self._resolve_actuated_resources(record, WHOLE_POD, record.pod.status.resources, desired)
        )

    def _container_resources(self, record: PodRecord, container: Container) -> ResourceRequirements:
        statuses = (*record.pod.status.containerStatuses, *record.pod.status.initContainerStatuses)
        reported = next((status.resources for status in statuses if status.name == container.name), None)
        return self._resolve_actuated_resources(record, container.name, reported, container.resources)

    def _resolve_actuated_resources(
        self, record: PodRecord, key: str, reported: ResourceRequirements | None, desired: ResourceRequirements
    ) -> ResourceRequirements:
        """Return the resources that a container or the pod runs with. If this kubelet has not applied them itself, they
        are taken from the last status, which an earlier kubelet may have written, and noted in the record.
        """
        actuated = (record.progress.actuated or {}).get(key)
        if actuated is None:
            actuated = reported if reported is not None else desired
            record.progress.actuated = {**(record.progress.actuated or {}), key: actuated}
        return actuated

    async def _carry_out(self, record: PodRecord, pending: list[tuple[Container, set[str]]]) -> None:
        """Apply the changes. The pod's cgroup first gets the larger of the old and the new limits, so that it never
        falls below the sum of its containers.
        """
        pod = record.pod
        await asyncio.to_thread(self._cgroups.widen, pod)
        for container, names in pending:
            if needs_restart(container, names):
                record.progress.resize_restarts = {*(record.progress.resize_restarts or ()), container.name}
                continue
            resources = container_resources(
                pod, container, node_memory=self._node_memory, memory_qos=self._cgroups.memory_qos
            )
            await self._runtime.update_resources(pod, container.name, resources)
            self.record_start(record, container)
        if not record.progress.resize_restarts:
            await asyncio.to_thread(self._cgroups.ensure, pod)

    def _reject(self, record: PodRecord, rejection: tuple[str, str]) -> None:
        resize = (PENDING, *rejection)
        if record.progress.resize == resize:
            return
        record.progress.resize = resize
        reason, message = rejection
        text = f"Pod resize {reason}: {summary(record.pod, message)}"
        self._events.record_pod_event(record.node, record.pod, WARNING, f"Resize{reason}", text)

    def _fail(self, record: PodRecord, message: str) -> None:
        record.progress.resize = (IN_PROGRESS, ERROR, message)
        text = f"Pod resize error: {summary(record.pod, message)}"
        self._events.record_pod_event(record.node, record.pod, WARNING, "ResizeError", text)

    def _finish_resize(self, record: PodRecord) -> None:
        if record.progress.resize is not None and record.progress.resize[0] == IN_PROGRESS:
            text = f"Pod resize completed: {summary(record.pod)}"
            self._events.record_pod_event(record.node, record.pod, NORMAL, "ResizeCompleted", text)
        record.progress.resize = None


# -- decisions --------------------------------------------------------------------------------------------------------

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
INFEASIBLE, DEFERRED, ERROR = "Infeasible", "Deferred", "Error"
_RESIZABLE = ("cpu", "memory")


def changed_resources(desired: ResourceRequirements, present: ResourceRequirements) -> set[str]:
    """Return the names of the resources that differ."""
    return {
        name
        for name in _RESIZABLE
        if _amount(desired.limits, name) != _amount(present.limits, name)
        or _amount(desired.requests, name) != _amount(present.requests, name)
    }


def _amount(amounts: Mapping[str, str], name: str) -> int:
    return int(parse(amounts[name]).milli_value()) if name in amounts else 0


def needs_restart(container: Container, names: set[str]) -> bool:
    return any(
        policy.resourceName in names and policy.restartPolicy == "RestartContainer" for policy in container.resizePolicy
    )


def resize_rejection(pod: Pod, node: Node, used_amounts: Mapping[str, int]) -> tuple[str, str] | None:
    """Return why the pod cannot have the requested resources, as reason and message: Infeasible if the node is too
    small, Deferred if other pods use them. Return None if they fit.
    """
    requests, has = amounts_of(pod), allocatable_of(node)
    for name in _RESIZABLE:
        if requests.get(name, 0) > has.get(name, 0):
            text = (
                f"Node didn't have enough capacity: {name}, requested: {requests[name]}, capacity: {has.get(name, 0)}"
            )
            return INFEASIBLE, text
    for name in _RESIZABLE:
        used = used_amounts.get(name, 0)
        if used + requests.get(name, 0) > has.get(name, 0):
            amounts = f"requested: {requests[name]}, used: {used}, capacity: {has.get(name, 0)}"
            return DEFERRED, f"Node didn't have enough resource: {name}, {amounts}"
    return None


def subtract_amounts(used: Amounts, own: Amounts | None) -> Amounts:
    return {name: amount - (own or {}).get(name, 0) for name, amount in used.items()}


def summary(pod: Pod, error: str = "") -> str:
    """Return the pod's resources as JSON for events."""
    value = {
        "initContainers": [_allocation(container) for container in pod.spec.initContainers],
        "containers": [_allocation(container) for container in pod.spec.containers or ()],
        "generation": pod.metadata.generation,
        "error": error,
    }
    return json.encode({key: field for key, field in value.items() if field or key == "generation"}).decode()


def _allocation(container: Container) -> dict[str, object]:
    return {"name": container.name, "resources": json.to_value(container.resources)}
