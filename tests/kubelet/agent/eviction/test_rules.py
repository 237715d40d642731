"""Thresholds, the order of evictions, admission under pressure, and the messages of evicted pods."""

from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod
from sampan.kubelet.agent.eviction import rules
from sampan.kubelet.agent.eviction.rules import EvictionThreshold, SignalObservation, SignalShortage, eviction_failure
from sampan.kubelet.node_status import DISK_PRESSURE, MEMORY_PRESSURE
from sampan.runtimes.contract import ContainerUsage

MIB = 1 << 20
MESSAGE = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
SHORTAGE = SignalShortage("memory.available", 100 * MIB, 50 * MIB)


def pod_requesting(*requests: str, **spec: Any) -> Pod:
    containers = [
        {"name": f"c{number}", "image": "i", "resources": {"requests": {"memory": memory} if memory else {}}}
        for number, memory in enumerate(requests)
    ]
    return json.from_value({"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}, Pod)


def test_the_message_names_containers_above_their_requests() -> None:
    usages = [ContainerUsage("c0", 0, 20 * MIB), ContainerUsage("c1", 0, 1000), ContainerUsage("c2", 0, 5 * MIB)]
    failure = eviction_failure(pod_requesting("10240Ki", "", "5Mi"), usages, SHORTAGE)
    assert failure.message == failure.disruption
    assert failure.message == MESSAGE + (
        "Container c0 was using 20Mi, request is 10Mi, has larger consumption of memory. "
        "Container c1 was using 1k, request is 0, has larger consumption of memory. "
    )
    assert failure.annotations == {
        "offending_containers": "c0,c1",
        "offending_containers_usage": "20Mi,1k",
        "starved_resource": "memory",
    }


def test_the_message_names_a_pod_above_its_pod_level_request() -> None:
    usages = [ContainerUsage("", 0, 30 * MIB), ContainerUsage("c0", 0, 20 * MIB)]
    failure = eviction_failure(pod_requesting("20Mi", resources={"requests": {"memory": "25Mi"}}), usages, SHORTAGE)
    assert failure.message == MESSAGE + "Pod p was using 30Mi, request is 25Mi, has larger consumption of memory. "
    assert failure.annotations == {
        "offending_pod": "p",
        "offending_pod_usage": "30Mi",
        "offending_containers": "",
        "offending_containers_usage": "",
        "starved_resource": "memory",
    }


def test_eviction_for_inodes_names_no_containers() -> None:
    failure = eviction_failure(
        pod_requesting(""), [ContainerUsage("c0", 0, 0, inodes=5)], SignalShortage("nodefs.inodesFree", 2048, 1000)
    )
    assert failure.message == "The node was low on resource: inodes. Threshold quantity: 2Ki, available: 1k. "
    assert failure.annotations == {
        "offending_containers": "",
        "offending_containers_usage": "",
        "starved_resource": "inodes",
    }


def test_message_without_usage_names_no_container() -> None:
    assert eviction_failure(pod_requesting("1Mi"), [], SHORTAGE).message == MESSAGE
    assert eviction_failure(pod_requesting("1Mi"), [], SHORTAGE).annotations == {}


def pod(name: str, *, requests: dict[str, str] | None = None, priority: int = 0, **spec: Any) -> Pod:
    container = {"name": "c", "image": "i", "resources": {"requests": requests or {}}}
    value = {"metadata": {"name": name, "uid": name}, "spec": {"containers": [container], "priority": priority, **spec}}
    return json.from_value(value, Pod)


def test_threshold_is_met_only_below_its_value() -> None:
    memory, disk = EvictionThreshold("memory.available", "100Mi"), EvictionThreshold("nodefs.available", "10%")
    observations = {
        "memory.available": SignalObservation(99 * MIB, 1000 * MIB),
        "nodefs.available": SignalObservation(50, 100),
    }
    assert rules.shortage(memory, observations, with_reclaim=False) == SignalShortage(
        "memory.available", 100 * MIB, 99 * MIB
    )
    assert rules.shortage(disk, observations, with_reclaim=False) is None
    assert rules.shortage(memory, {"memory.available": SignalObservation(100 * MIB, 1)}, with_reclaim=False) is None
    assert rules.shortage(memory, {}, with_reclaim=False) is None


def test_a_shortage_ends_only_beyond_the_threshold_and_minimum_reclaim() -> None:
    threshold = EvictionThreshold("memory.available", "100Mi", reclaim="50Mi")
    observations = {"memory.available": SignalObservation(120 * MIB, 1000 * MIB)}
    assert rules.shortage(threshold, observations, with_reclaim=False) is None
    assert rules.shortage(threshold, observations, with_reclaim=True) == SignalShortage(
        "memory.available", 100 * MIB, 120 * MIB
    )


def test_pods_are_ranked_by_priority_and_processes() -> None:
    rows = [
        (pod("few", priority=0), [ContainerUsage("c", 0, 0, processes=1)]),
        (pod("many"), [ContainerUsage("c", 0, 0, processes=9)]),
    ]
    rows.append((pod("important", priority=5), [ContainerUsage("c", 0, 0, processes=99)]))
    assert [pod.metadata.name for pod, _ in rules.rank_pods(rows, "pids")] == ["many", "few", "important"]


def test_pods_that_use_more_than_they_request_are_ranked_first() -> None:
    modest = pod("modest", requests={"memory": "500Mi"})
    greedy, larger = pod("greedy"), pod("larger")
    important = pod("important", priority=10)
    vital = pod("vital", priority=2_000_000_000)
    rows = [(pod, [ContainerUsage("c", 0, size * MIB)]) for pod, size in ((modest, 400), (greedy, 50), (larger, 60))]
    rows += [(important, [ContainerUsage("c", 0, 300 * MIB)]), (vital, [ContainerUsage("c", 0, 900 * MIB)])]
    names = [pod.metadata.name for pod, _ in rules.rank_pods(rows, "memory")]
    assert names == ["larger", "greedy", "important", "modest"]


@pytest.mark.parametrize(
    ("pod", "types", "is_admitted"),
    [
        (pod("best-effort"), [], True),
        (pod("best-effort"), [MEMORY_PRESSURE], False),
        (pod("burstable", requests={"cpu": "1"}), [MEMORY_PRESSURE], True),
        (pod("burstable", requests={"cpu": "1"}), [DISK_PRESSURE], False),
        (pod("vital", priority=2_000_000_000), [DISK_PRESSURE], True),
        (pod("tolerant", tolerations=[{"operator": "Exists"}]), [MEMORY_PRESSURE], True),
    ],
)
def test_admission_under_pressure(pod: Pod, types: list[str], is_admitted: bool) -> None:
    failure = rules.admission_failure(pod, types)
    assert (failure is None) is is_admitted
    if failure is not None:
        assert failure.message == f"The node had condition: [{types[0]}]. "
