"""What is told of an eviction."""

from typing import Any

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod
from sampan.kubelet.agent.eviction.rules import Shortage, eviction_failure
from sampan.runtimes.contract import Usage

MIB = 1 << 20
LOW = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
SHORT = Shortage("memory.available", 100 * MIB, 50 * MIB)


def pod(*requests: str, **spec: Any) -> Pod:
    containers = [
        {"name": f"c{number}", "image": "i", "resources": {"requests": {"memory": memory} if memory else {}}}
        for number, memory in enumerate(requests)
    ]
    return json.from_value({"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}, Pod)


def test_those_who_use_more_than_they_asked_for() -> None:
    usages = [Usage("c0", 0, 20 * MIB), Usage("c1", 0, 1000), Usage("c2", 0, 5 * MIB)]
    failure = eviction_failure(pod("10240Ki", "", "5Mi"), usages, SHORT)
    assert failure.message == failure.disruption
    assert failure.message == LOW + (
        "Container c0 was using 20Mi, request is 10Mi, has larger consumption of memory. "
        "Container c1 was using 1k, request is 0, has larger consumption of memory. "
    )
    assert failure.annotations == {
        "offending_containers": "c0,c1",
        "offending_containers_usage": "20Mi,1k",
        "starved_resource": "memory",
    }


def test_a_pod_that_asked_as_a_whole() -> None:
    usages = [Usage("", 0, 30 * MIB), Usage("c0", 0, 20 * MIB)]
    failure = eviction_failure(pod("20Mi", resources={"requests": {"memory": "25Mi"}}), usages, SHORT)
    assert failure.message == LOW + "Pod p was using 30Mi, request is 25Mi, has larger consumption of memory. "
    assert failure.annotations == {
        "offending_pod": "p",
        "offending_pod_usage": "30Mi",
        "offending_containers": "",
        "offending_containers_usage": "",
        "starved_resource": "memory",
    }


def test_nobody_asks_for_inodes() -> None:
    failure = eviction_failure(pod(""), [Usage("c0", 0, 0, inodes=5)], Shortage("nodefs.inodesFree", 2048, 1000))
    assert failure.message == "The node was low on resource: inodes. Threshold quantity: 2Ki, available: 1k. "
    assert failure.annotations == {
        "offending_containers": "",
        "offending_containers_usage": "",
        "starved_resource": "inodes",
    }


def test_without_figures_nobody_is_blamed() -> None:
    assert eviction_failure(pod("1Mi"), [], SHORT).message == LOW
    assert eviction_failure(pod("1Mi"), [], SHORT).annotations == {}
