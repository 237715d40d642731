"""pod-garbage-collector-controller."""

from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Node, Pod
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.nodes.pod_gc import select_excess_pods, select_out_of_service_pods, select_unscheduled_pods
from sampan.machinery.client import DeleteParameters
from tests.apiserver.pods import pod_value
from tests.controllers.cluster import cluster
from tests.controllers.nodes.fleet import Fleet

NAME = "pod-garbage-collector-controller"


def pod(name: str, phase: str, created: int = 0, *, reason: str = "", node: str = "", is_deleted: bool = False) -> Pod:
    value: dict[str, Any] = pod_value({"nodeName": node}, name=name)
    value["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{created:02d}Z"
    if is_deleted:
        value["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    value["status"] = {"phase": phase, "reason": reason}
    return codec.from_value(value, Pod)


def names(pods: list[Pod]) -> list[str]:
    return [pod.metadata.name for pod in pods]


def test_excess_pods_are_evicted_pods_first_then_oldest_pods() -> None:
    pods = [
        pod("c", "Succeeded", 3),
        pod("b", "Failed", 1),
        pod("a", "Failed", 1),
        pod("evicted", "Failed", 9, reason="Evicted"),
        pod("runs", "Running"),
    ]
    assert names(select_excess_pods(pods, 4)) == []
    assert names(select_excess_pods(pods, 3)) == ["evicted"]
    assert names(select_excess_pods(pods, 1)) == ["evicted", "a", "b"]
    assert names(select_excess_pods(pods, 0)) == []


def test_terminating_pods_on_out_of_service_nodes_or_without_node() -> None:
    out = codec.from_value(
        {
            "metadata": {"name": "out"},
            "spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]},
        },
        Node,
    )
    pods = [
        pod("a", "Running", node="out", is_deleted=True),
        pod("b", "Running", node="out"),
        pod("c", "Running", is_deleted=True),
    ]
    assert names(select_out_of_service_pods(pods, {"out": out})) == ["a"]
    assert names(select_unscheduled_pods(pods)) == ["c"]


async def test_pods_of_a_deleted_node_are_deleted_after_the_quarantine() -> None:
    async with cluster() as c:
        fleet = Fleet(c)
        await fleet.account()
        await fleet.add("stays")
        await fleet.add("goes")
        await fleet.pod("a", "stays")
        await fleet.pod("b", "goes", finalizers=["example.com/look"])
        async with c.running(NAME):
            await c.client.for_kind(Node).delete("goes")
            await c.clock.advance(39)
            assert (await c.client.for_kind(Pod).get("b", "default")).status.phase == "Running"
            await c.clock.advance(30)
            pod = await c.client.for_kind(Pod).get("b", "default")
            assert pod.status.phase == "Failed"
            assert pod.metadata.deletionTimestamp is not None
            target = next(condition for condition in pod.status.conditions if condition.type == "DisruptionTarget")
            assert (target.reason, target.message) == ("DeletionByPodGC", "PodGC: node no longer exists")
            await c.client.for_kind(Pod).patch("b", {"metadata": {"finalizers": None}}, "default")
            await c.clock.advance(40)
            assert await fleet.pods() == ["a"]
        before = await c.revision()
        async with c.running(NAME):
            await c.clock.advance(120)
        assert await c.revision() == before


async def test_node_recreated_within_the_quarantine_keeps_its_pods() -> None:
    async with cluster() as c, c.running(NAME):
        fleet = Fleet(c)
        await fleet.account()
        await fleet.add("n")
        await fleet.pod("a", "n")
        for _ in range(5):
            await c.client.for_kind(Node).delete("n")
            await c.clock.advance(30)
            await fleet.add("n")
            await c.clock.advance(30)
        assert await fleet.pods() == ["a"]


async def test_terminated_pod_threshold_and_terminating_unscheduled_pods() -> None:
    async with cluster() as c:
        fleet = Fleet(c)
        await fleet.account()
        await fleet.add("n")
        for index in range(4):
            await fleet.pod(f"over{index}", "n", phase="Succeeded")
            await c.clock.advance(1)
        await fleet.pod("waits", finalizers=["example.com/look"], phase="Pending")
        await c.client.for_kind(Pod).delete("waits", "default", options=DeleteParameters(grace_period_s=30))
        async with c.running(NAME, config=ControllerConfig(terminated_pod_gc_threshold=2)):
            assert await fleet.pods() == ["over2", "over3", "waits"]
            assert (await c.client.for_kind(Pod).get("waits", "default")).status.phase == "Failed"


async def test_terminating_pods_of_an_out_of_service_node_are_deleted() -> None:
    async with cluster() as c, c.running(NAME):
        fleet = Fleet(c)
        await fleet.account()
        await fleet.add("n", ready="Unknown")
        await fleet.pod("a", "n")
        await c.client.for_kind(Pod).delete("a", "default")
        await c.clock.advance(60)
        assert await fleet.pods() == ["a"]
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        await c.client.for_kind(Node).patch("n", {"spec": {"taints": [taint]}})
        await c.clock.advance(21)
        assert await fleet.pods() == []
