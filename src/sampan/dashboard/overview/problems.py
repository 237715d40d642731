"""What is wrong with an object, in one sentence, with the next step as a kubectl command."""

from __future__ import annotations

from typing import Any

import msgspec

from sampan.api.semantics.workloads import desired_replicas
from sampan.dashboard.overview.objects import (
    ContainerStatus,
    OverviewNode,
    OverviewPod,
    OverviewWorkload,
    condition,
)

CRITICAL, WARNING = "critical", "warning"
_PENDING_REASONS = ("ContainerCreating", "PodInitializing", "")
_MIN_REPORTED_RESTARTS = 5
_MESSAGE_LENGTH = 300
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


class Problem(msgspec.Struct, gc=False, frozen=True):
    severity: str
    object: dict[str, str]
    reason: str
    message: str
    kubectl: str


def _problem(
    severity: str, gvr: tuple[str, str, str], kind: str, metadata: Any, reason: str, message: str, command: str
) -> Problem:
    group, version, resource = gvr
    value = {
        "group": group,
        "version": version,
        "resource": resource,
        "kind": kind,
        "namespace": metadata.namespace,
        "name": metadata.name,
    }
    return Problem(severity, value, reason, message.strip()[:_MESSAGE_LENGTH], command)


def pod_problem(pod: OverviewPod) -> Problem | None:
    metadata, status = pod.metadata, pod.status
    namespace_flag = f"-n {metadata.namespace}"
    describe = f"kubectl describe pod {metadata.name} {namespace_flag}"

    def problem(severity: str, reason: str, message: str, command: str = describe) -> Problem:
        return _problem(severity, ("", "v1", "pods"), "Pod", metadata, reason, message, command)

    if metadata.deletionTimestamp:
        return None
    if status.phase == "Failed":
        return problem(WARNING, status.reason or "Failed", status.message or "The pod has failed.")
    for container in (*(status.initContainerStatuses or ()), *(status.containerStatuses or ())):
        failure = _container_reason(container)
        if failure is not None:
            reason, message = failure
            logs = f"kubectl logs {metadata.name} -c {container.name} {namespace_flag} --previous"
            return problem(CRITICAL, reason, message, logs if container.restartCount else describe)
    scheduled = condition(status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        reason = scheduled.reason or "Unschedulable"
        if reason == "SchedulingGated":
            return problem(WARNING, reason, scheduled.message or "The pod waits for a scheduling gate.")
        command = f"sampan why pod/{metadata.name} {namespace_flag}"
        return problem(CRITICAL, reason, scheduled.message or "No node fits the pod.", command)
    return None


def _container_reason(container: ContainerStatus) -> tuple[str, str] | None:
    state, last = container.state, container.lastState
    waiting = state.waiting if state is not None else None
    terminated = state.terminated if state is not None else None
    previous = last.terminated if last is not None else None
    if waiting is not None and (waiting.reason or "") not in _PENDING_REASONS:
        cause = f" It ended with exit code {previous.exitCode} ({previous.reason})." if previous is not None else ""
        return waiting.reason or "", f"Container {container.name}: {waiting.message or waiting.reason}.{cause}"
    if terminated is not None and terminated.exitCode != 0:
        text = f"Container {container.name} ended with exit code {terminated.exitCode} ({terminated.reason})."
        return terminated.reason or "Error", text
    if previous is not None and container.restartCount >= _MIN_REPORTED_RESTARTS and not container.ready:
        text = f"Container {container.name} restarted {container.restartCount} times; last: {previous.reason}."
        return previous.reason or "Restarts", text
    return None


def node_problem(node: OverviewNode) -> Problem | None:
    metadata, conditions = node.metadata, node.status.conditions
    command = f"kubectl describe node {metadata.name}"

    def problem(severity: str, reason: str, message: str) -> Problem:
        return _problem(severity, ("", "v1", "nodes"), "Node", metadata, reason, message, command)

    ready = condition(conditions, "Ready")
    if ready is None or ready.status != "True":
        message = (ready.message if ready is not None else "") or "The node has not reported that it is ready."
        return problem(CRITICAL, "NotReady", message)
    for name in _PRESSURES:
        pressure = condition(conditions, name)
        if pressure is not None and pressure.status == "True":
            return problem(WARNING, name, pressure.message or f"The node reports {name}.")
    return None


def pressures_of(node: OverviewNode) -> list[str]:
    return [entry.type for entry in node.status.conditions or () if entry.type in _PRESSURES and entry.status == "True"]


WORKLOADS: dict[str, tuple[tuple[str, str, str], str]] = {
    "deployments": (("apps", "v1", "deployments"), "Deployment"),
    "statefulsets": (("apps", "v1", "statefulsets"), "StatefulSet"),
    "daemonsets": (("apps", "v1", "daemonsets"), "DaemonSet"),
    "jobs": (("batch", "v1", "jobs"), "Job"),
    "persistentvolumeclaims": (("", "v1", "persistentvolumeclaims"), "PersistentVolumeClaim"),
}


def workload_health(resource: str, workload: OverviewWorkload) -> str:
    """Return `healthy`, `degraded` or `failed`."""
    status = workload.status
    match resource:
        case "jobs":
            failed = condition(status.conditions, "Failed")
            return "failed" if failed is not None and failed.status == "True" else "healthy"
        case "persistentvolumeclaims":
            return {"Bound": "healthy", "Lost": "failed"}.get(status.phase or "", "degraded")
        case "daemonsets":
            ready, desired = status.numberReady or 0, status.desiredNumberScheduled or 0
        case "deployments":
            ready, desired = status.availableReplicas or 0, desired_replicas(workload)
        case _:
            ready, desired = status.readyReplicas or 0, desired_replicas(workload)
    if ready >= desired:
        return "healthy"
    return "degraded" if ready else "failed"


def workload_problem(resource: str, workload: OverviewWorkload) -> Problem | None:
    """Return the problem of a workload that does not show in its pods: a rollout that does not progress, a failed job,
    a claim without a volume."""
    gvr, kind = WORKLOADS[resource]
    metadata, conditions = workload.metadata, workload.status.conditions
    command = f"kubectl describe {resource.removesuffix('s')} {metadata.name} -n {metadata.namespace}"
    for name, bad in (("Progressing", "False"), ("ReplicaFailure", "True"), ("Failed", "True")):
        entry = condition(conditions, name)
        if entry is not None and entry.status == bad:
            message = entry.message or f"{name} is {bad}."
            return _problem(CRITICAL, gvr, kind, metadata, entry.reason or name, message, command)
    if resource == "persistentvolumeclaims" and workload.status.phase == "Lost":
        return _problem(CRITICAL, gvr, kind, metadata, "Lost", "The volume of the claim does not exist.", command)
    return None
