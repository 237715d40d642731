"""In-place resizes of pods: changed resources, feasibility, and actuation."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Container, Node, Pod, ResourceRequirements
from sampan.kubelet import admission
from sampan.kubelet.agent.pod_resizer import (
    DEFERRED,
    INFEASIBLE,
    PodResizer,
    changed_resources,
    needs_restart,
    resize_rejection,
)
from sampan.kubelet.pod_status import WHOLE_POD
from sampan.kubelet.records import NodeRecord, PodRecord
from sampan.runtimes import contract
from sampan.runtimes.config import ContainerResources
from sampan.runtimes.contract import ContainerReport, PodReport

NODE = json.from_value({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}}, Node)


def pod(cpu: str) -> Pod:
    whole = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    spec = {"containers": [{"name": "c", "image": "i"}], "resources": whole}
    return json.from_value({"metadata": {"name": "p", "uid": "u"}, "spec": spec}, Pod)


class Groups:
    memory_qos = None

    def __init__(self) -> None:
        self.ensured: list[Pod] = []

    def widen(self, pod: Pod) -> None:
        return

    def ensure(self, pod: Pod) -> None:
        self.ensured.append(pod)


class Events:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def record_pod_event(self, kubelet: object, pod: Pod, type: str, reason: str, message: str) -> None:
        self.reasons.append(reason)


@pytest.mark.parametrize(
    ("cpu", "reasons", "condition"),
    [("2", ["ResizeStarted", "ResizeCompleted"], None), ("9", ["ResizeInfeasible"], "PodResizePending")],
)
async def test_pod_level_resources_are_resized(cpu: str, reasons: list[str], condition: str | None) -> None:
    groups, events = Groups(), Events()
    unused: Any = None
    node = NodeRecord(name="n", client=unused, runtime=unused, machine=unused, api_node=NODE)
    record = PodRecord(node=node, pod=pod("1"))
    record.count(admission.amounts_of(record.pod))
    running = ContainerReport("c", "id", contract.RUNNING, 0, "i", "i")
    report = PodReport(is_sandbox_ready=True, sandboxes=1, containers=[running])
    collaborators: Any = {"cgroups": groups, "events": events}
    resizer = PodResizer(runtime=unused, node_memory=1 << 30, **collaborators)
    await resizer.sync(record, report)
    assert (groups.ensured, events.reasons) == ([], [])
    record.spec.pod = msgspec.structs.replace(record.pod, spec=pod(cpu).spec)
    await resizer.sync(record, report)
    assert events.reasons == reasons
    assert (record.progress.resize[0] if record.progress.resize is not None else None) == condition
    actuated_cpu = (record.progress.actuated or {})[WHOLE_POD].requests["cpu"]
    assert (actuated_cpu, len(groups.ensured)) == ((cpu, 1) if condition is None else ("1", 0))


class Runtime:
    def __init__(self) -> None:
        self.updated: list[tuple[str, int]] = []

    async def update_resources(self, pod: Pod, name: str, resources: ContainerResources) -> None:
        self.updated.append((name, resources.memory_bytes))


async def test_only_running_init_containers_are_resized() -> None:
    """Init containers that have ended or have not started have no resources to update."""

    def pod_with_memory(memory: str) -> Pod:
        limits = {"limits": {"memory": memory}, "requests": {"memory": memory}}
        inits = [{"name": name, "image": "i", "resources": limits} for name in ("past", "present", "future")]
        spec = {"initContainers": inits, "containers": [{"name": "c", "image": "i"}]}
        return json.from_value({"metadata": {"name": "p", "uid": "u"}, "spec": spec}, Pod)

    unused: Any = None
    node = NodeRecord(name="n", client=unused, runtime=unused, machine=unused, api_node=NODE)
    record = PodRecord(node=node, pod=pod_with_memory("1Mi"))
    record.count(admission.amounts_of(record.pod))
    ended = ContainerReport("past", "id", contract.EXITED, 0, "i", "i")
    report = PodReport(
        is_sandbox_ready=True,
        sandboxes=1,
        containers=[ended, replace(ended, name="present", state=contract.RUNNING)],
    )
    events, runtime = Events(), Runtime()
    collaborators: Any = {"cgroups": Groups(), "events": events, "runtime": runtime}
    resizer = PodResizer(node_memory=1 << 30, **collaborators)
    await resizer.sync(record, report)
    record.spec.pod = pod_with_memory("2Mi")
    await resizer.sync(record, report)
    assert runtime.updated == [("present", 2 << 20)]
    assert events.reasons == ["ResizeStarted", "ResizeCompleted"]


SMALL_NODE = json.from_value(
    {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}}, Node
)


def amounts(**quantities: str) -> ResourceRequirements:
    return ResourceRequirements(requests=dict(quantities), limits=dict(quantities))


@pytest.mark.parametrize(
    ("requirements", "present", "expected"),
    [
        (amounts(cpu="1"), amounts(cpu="1000m"), set()),
        (amounts(cpu="1"), amounts(cpu="2"), {"cpu"}),
        (amounts(cpu="1", memory="1Gi"), amounts(), {"cpu", "memory"}),
        (amounts(cpu="1"), amounts(cpu="1", **{"ephemeral-storage": "1Gi"}), set()),
    ],
)
def test_changed_resources(
    requirements: ResourceRequirements, present: ResourceRequirements, expected: set[str]
) -> None:
    assert changed_resources(requirements, present) == expected


def test_a_resize_policy_decides_which_container_restarts() -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    container = json.from_value({"name": "c", "resizePolicy": policy}, Container)
    assert needs_restart(container, {"memory"})
    assert not needs_restart(container, {"cpu"})


def pod_requesting(cpu: str) -> Pod:
    return json.from_value({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}, Pod)


def test_a_resize_is_infeasible_or_deferred() -> None:
    assert resize_rejection(pod_requesting("1"), SMALL_NODE, {}) is None
    assert resize_rejection(pod_requesting("3"), SMALL_NODE, {}) == (
        INFEASIBLE,
        "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000",
    )
    assert resize_rejection(pod_requesting("1"), SMALL_NODE, {"cpu": 1500}) == (
        DEFERRED,
        "Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000",
    )
