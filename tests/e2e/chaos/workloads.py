"""The workloads of a chaos test, and the state that they must reach after it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from sampan.api.codec import json as codec
from sampan.api.types.apps_v1 import DaemonSet, Deployment, StatefulSet
from sampan.api.types.base import Struct
from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Node, Pod
from sampan.controllers.batch.job.conditions import has_succeeded
from sampan.machinery.client import Client, Selection

T = TypeVar("T", bound=Struct)

NAMESPACE = "default"
IN_DEFAULT = Selection(namespace=NAMESPACE)


@dataclass(frozen=True, slots=True)
class Sizes:
    deployments: int
    stateful_sets: int
    jobs: int
    daemon_sets: int
    nodes: int


def template(name: str, image: str = "one", *, run: str = "", **spec: Any) -> dict[str, Any]:
    annotations = {"hollow.sampan.dev/run": run} if run else {}
    containers = [{"name": "c", "image": image}]
    return {
        "metadata": {"labels": {"app": name}, "annotations": annotations},
        "spec": {"containers": containers, **spec},
    }


def _object_of(kind: type[T], name: str, spec: dict[str, Any]) -> T:
    if kind is not Job:
        spec = {"selector": {"matchLabels": {"app": name}}, **spec}
    return codec.from_value({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}, kind)


def deployment(at: int) -> Deployment:
    name = f"deployment-{at}"
    update = {"maxSurge": at % 3 or 1, "maxUnavailable": at % 2}
    strategy = {"type": "Recreate"} if at % 10 == 9 else {"type": "RollingUpdate", "rollingUpdate": update}
    return _object_of(Deployment, name, {"replicas": at % 5 + 1, "template": template(name), "strategy": strategy})


def stateful_set(at: int) -> StatefulSet:
    name = f"set-{at}"
    policy = "Parallel" if at % 2 else "OrderedReady"
    spec = {"replicas": at % 4 + 1, "template": template(name), "serviceName": name, "podManagementPolicy": policy}
    return _object_of(StatefulSet, name, spec)


def job(at: int) -> Job:
    name = f"job-{at}"
    mode = "Indexed" if at % 2 else "NonIndexed"
    pods = template(name, run="20s..60s", restartPolicy="Never")
    spec = {"completions": 6, "parallelism": at % 3 + 1, "completionMode": mode, "backoffLimit": 1000}
    return _object_of(Job, name, {**spec, "template": pods, "podReplacementPolicy": "Failed" if at % 4 > 1 else None})


def daemon_set(at: int) -> DaemonSet:
    name = f"daemon-{at}"
    return _object_of(DaemonSet, name, {"template": template(name)})


def all_workloads(sizes: Sizes) -> Iterator[Any]:
    yield from map(deployment, range(sizes.deployments))
    yield from map(stateful_set, range(sizes.stateful_sets))
    yield from map(job, range(sizes.jobs))
    yield from map(daemon_set, range(sizes.daemon_sets))


async def unhealthy_workloads(client: Client) -> list[str]:
    """Return a description of every workload and pod whose status is not the desired one."""
    nodes = {node.metadata.name for node in (await client.for_kind(Node).list()).items}
    faults = [_deployment_problem(workload) for workload in (await client.for_kind(Deployment).list(IN_DEFAULT)).items]
    faults += [
        _stateful_set_problem(workload) for workload in (await client.for_kind(StatefulSet).list(IN_DEFAULT)).items
    ]
    faults += [_job_problem(workload) for workload in (await client.for_kind(Job).list(IN_DEFAULT)).items]
    faults += [
        _daemon_set_problem(workload, len(nodes))
        for workload in (await client.for_kind(DaemonSet).list(IN_DEFAULT)).items
    ]
    faults += [_pod_problem(workload, nodes) for workload in (await client.for_kind(Pod).list(IN_DEFAULT)).items]
    return [workload for workload in faults if workload]


def _deployment_problem(deployment: Deployment) -> str:
    replicas, status = deployment.spec.replicas, deployment.status
    counts = (status.replicas, status.updatedReplicas, status.readyReplicas, status.availableReplicas)
    return _problem_unless(
        deployment, status.observedGeneration == deployment.metadata.generation and set(counts) == {replicas}, counts
    )


def _stateful_set_problem(stateful_set: StatefulSet) -> str:
    replicas, status = stateful_set.spec.replicas, stateful_set.status
    counts = (status.replicas, status.updatedReplicas, status.readyReplicas, status.availableReplicas)
    return _problem_unless(
        stateful_set,
        status.observedGeneration == stateful_set.metadata.generation and set(counts) == {replicas},
        counts,
    )


def _job_problem(job: Job) -> str:
    status = job.status
    is_done = has_succeeded(job) and status.succeeded == job.spec.completions and not status.active
    return _problem_unless(job, is_done, (status.active, status.succeeded, status.failed))


def _daemon_set_problem(daemon_set: DaemonSet, nodes: int) -> str:
    status = daemon_set.status
    counts = (
        status.desiredNumberScheduled,
        status.currentNumberScheduled,
        status.updatedNumberScheduled,
        status.numberAvailable,
    )
    is_healthy = set(counts) == {nodes} and status.numberMisscheduled == 0
    return _problem_unless(
        daemon_set, is_healthy and status.observedGeneration == daemon_set.metadata.generation, counts
    )


def _pod_problem(pod: Pod, nodes: set[str]) -> str:
    is_healthy = pod.status.phase == "Succeeded" or (pod.status.phase == "Failed" and "job-name" in pod.metadata.labels)
    if pod.status.phase == "Running" and pod.metadata.deletionTimestamp is None:
        is_healthy = pod.spec.nodeName in nodes
    return _problem_unless(pod, is_healthy, (pod.status.phase, pod.spec.nodeName, pod.metadata.deletionTimestamp))


def _problem_unless(workload: Any, is_healthy: bool, counts: tuple[Any, ...]) -> str:
    return "" if is_healthy else f"{type(workload).__name__} {workload.metadata.name}: {counts}"
