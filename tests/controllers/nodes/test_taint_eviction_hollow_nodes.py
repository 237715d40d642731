"""Pods of a hollow node that stops are evicted after five minutes of virtual time."""

from sampan.api.types.core_v1 import Node, Pod
from sampan.kubelet import hollow_nodes
from tests.apiserver.pods import pod
from tests.controllers.cluster import Cluster, cluster
from tests.controllers.nodes.fleet import Fleet

CONTROLLERS = (
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
    "serviceaccount-controller",
)


async def set_power(c: Cluster, name: str, state: str | None) -> None:
    await c.client.for_kind(Node).patch(name, {"metadata": {"annotations": {hollow_nodes.POWER: state}}})


async def start_pods(c: Cluster) -> None:
    pods = c.client.for_kind(Pod)
    await pods.create(pod({"nodeName": "dies"}, name="a"))
    await pods.create(pod({"nodeName": "lives"}, name="b"))
    await c.clock.advance(10)
    assert {pod.status.phase for pod in (await pods.list()).items} == {"Running"}


async def is_ready(c: Cluster, name: str) -> bool:
    pod = await c.client.for_kind(Pod).get(name, "default")
    return any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)


async def test_pods_of_a_node_that_stops_are_evicted() -> None:
    async with cluster() as c, c.running(*CONTROLLERS), c.nodes("lives", "dies"):
        pods, fleet = c.client.for_kind(Pod), Fleet(c)
        await start_pods(c)
        assert await fleet.taints("dies") == []
        await set_power(c, "dies", hollow_nodes.OFF)
        await c.clock.advance(60)
        assert await fleet.taints("dies") == [("unreachable", "NoExecute"), ("unreachable", "NoSchedule")]
        assert not await is_ready(c, "a")
        await c.clock.advance(280)
        assert (await pods.get("a", "default")).metadata.deletionTimestamp is None
        await c.clock.advance(30)
        assert (await pods.get("a", "default")).metadata.deletionTimestamp is not None
        assert (await pods.get("b", "default")).metadata.deletionTimestamp is None
        await c.client.for_kind(Node).delete("dies")
        await c.clock.advance(70)
        assert await fleet.pods() == ["b"]
        assert await fleet.taints("lives") == []


async def test_a_node_that_comes_back_keeps_its_pods() -> None:
    async with cluster() as c, c.running(*CONTROLLERS), c.nodes("lives", "dies"):
        fleet = Fleet(c)
        await start_pods(c)
        await set_power(c, "dies", hollow_nodes.OFF)
        await c.clock.advance(200)
        assert ("unreachable", "NoExecute") in await fleet.taints("dies")
        await set_power(c, "dies", None)
        await c.clock.advance(400)
        assert await fleet.taints("dies") == []
        assert (await c.client.for_kind(Pod).get("a", "default")).metadata.deletionTimestamp is None
        assert await is_ready(c, "a")
        messages = {message for _, _, message in await fleet.events("TaintManagerEviction")}
        assert messages == {"Cancelling deletion of Pod default/a"}
