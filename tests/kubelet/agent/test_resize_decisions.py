"""What a resize changes, and whether it can be."""

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Container, Node, Pod, ResourceRequirements
from sampan.kubelet.agent.pod_resizer import DEFERRED, INFEASIBLE, changed_resources, needs_restart, resize_rejection

NODE = json.from_value({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}}, Node)


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
def test_what_changes(requirements: ResourceRequirements, present: ResourceRequirements, expected: set[str]) -> None:
    assert changed_resources(requirements, present) == expected


def test_who_is_restarted() -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    container = json.from_value({"name": "c", "resizePolicy": policy}, Container)
    assert needs_restart(container, {"memory"})
    assert not needs_restart(container, {"cpu"})


def pod(cpu: str) -> Pod:
    return json.from_value({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}, Pod)


def test_what_can_never_be_and_what_can_later() -> None:
    assert resize_rejection(pod("1"), NODE, {}) is None
    assert resize_rejection(pod("3"), NODE, {}) == (
        INFEASIBLE,
        "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000",
    )
    assert resize_rejection(pod("1"), NODE, {"cpu": 1500}) == (
        DEFERRED,
        "Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000",
    )
