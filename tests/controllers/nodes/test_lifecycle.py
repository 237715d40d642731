"""node-lifecycle-controller, alone and together with taint-eviction-controller."""

import asyncio
import time
from dataclasses import replace

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.core_v1 import Node, Pod
from sampan.api.values import times
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.nodes.health import ready_status
from sampan.machinery.client import PatchType
from tests.controllers.cluster import CONFIG, Cluster, cluster
from tests.controllers.nodes.fleet import Fleet
from tests.controllers.workloads.lag import lagging_controller
from tests.input_cost import is_cpu_time_within

LIFECYCLE, EVICTION = "node-lifecycle-controller", "taint-eviction-controller"


async def resource_versions(c: Cluster) -> list[str]:
    """Resource versions of all nodes and pods, which a second run may not change."""
    objects = [*(await c.client.for_kind(Node).list()).items, *(await c.client.for_kind(Pod).list()).items]
    return [obj.metadata.resourceVersion for obj in objects]


async def test_node_without_heartbeats_becomes_unknown_and_its_pods_not_ready() -> None:
    async with cluster() as c:
        fleet = Fleet(c)
        await fleet.account()
        for name in ("lives", "dies"):
            await fleet.add(name)
        await fleet.renew("lives", "dies")
        await fleet.pod("a", "dies")
        async with c.running(LIFECYCLE):
            await fleet.pass_time(50, "lives")
            assert await fleet.taints("dies") == []
            await fleet.pass_time(10, "lives")
            node = await fleet.node("dies")
            assert {
                (condition.type, condition.status, condition.reason, condition.message)
                for condition in node.status.conditions
            } == {
                (type, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
                for type in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
            }
            assert await fleet.taints("dies") == [("unreachable", "NoExecute"), ("unreachable", "NoSchedule")]
            assert all(taint.timeAdded for taint in node.spec.taints)
            assert await fleet.taints("lives") == []
            pod = await c.client.for_kind(Pod).get("a", "default")
            assert [(condition.type, condition.status) for condition in pod.status.conditions] == [("Ready", "False")]
            assert await fleet.events("NodeNotReady") == [
                ("a", "NodeNotReady", "Node is not ready"),
                ("dies", "NodeNotReady", "Node dies status is now: NodeNotReady"),
            ]
            assert ("lives", "RegisteredNode", "Node lives event: Registered Node lives in Controller") in (
                await fleet.events("RegisteredNode")
            )
            await fleet.renew("dies")
            await fleet.post("dies")
            await fleet.pass_time(10, "lives", "dies")
            assert await fleet.taints("dies") == []
            await c.client.for_kind(Node).delete("dies")
            await fleet.pass_time(10, "lives")
            assert await fleet.events("RemovingNode") == [
                ("dies", "RemovingNode", "Node dies event: Removing Node dies from Controller")
            ]


def test_pods_of_an_unreachable_node_are_evicted_after_five_minutes() -> None:
    async def main() -> float:
        async with cluster() as c:
            fleet = Fleet(c)
            await fleet.account()
            for name in ("lives", "dies"):
                await fleet.add(name)
            await fleet.renew("lives", "dies")
            async with c.running(LIFECYCLE, EVICTION):
                await fleet.pod("goes", "dies")
                await fleet.pod("stays", "lives")
                pod = await c.client.for_kind(Pod).get("goes", "default")
                assert {toleration.tolerationSeconds for toleration in pod.spec.tolerations} == {300}, (
                    "the default of admission"
                )
                cpu_start = time.process_time()
                await fleet.pass_time(60, "lives")
                assert await fleet.pods() == ["goes", "stays"]
                await fleet.pass_time(280, "lives")
                assert await fleet.pods() == ["goes", "stays"]
                assert (await c.client.for_kind(Pod).get("goes", "default")).metadata.deletionTimestamp is None
                await fleet.pass_time(20, "lives")
                took_s = time.process_time() - cpu_start
                pod = await c.client.for_kind(Pod).get("goes", "default")
                assert pod.metadata.deletionTimestamp is not None, "the pod is evicted"
                target = next(condition for condition in pod.status.conditions if condition.type == "DisruptionTarget")
                assert (target.status, target.reason) == ("True", "DeletionByTaintManager")
                assert target.message == "Taint manager: deleting due to NoExecute taint"
                assert await fleet.events("TaintManagerEviction") == [
                    ("goes", "TaintManagerEviction", "Marking for deletion Pod default/goes")
                ]
                return took_s

    assert is_cpu_time_within(asyncio.run(main()), 5), "six minutes of virtual time take less than 5 s of CPU time"


async def test_leases_and_status_updates_both_count_as_heartbeats() -> None:
    async with cluster() as c:
        fleet = Fleet(c)
        for name in ("leases", "posts"):
            await fleet.add(name)
        async with c.running(LIFECYCLE):
            for _ in range(12):
                await fleet.post("posts")
                await fleet.pass_time(10, "leases")
            assert await fleet.taints("leases") == await fleet.taints("posts") == []


async def test_node_that_never_posted_status_becomes_unknown() -> None:
    async with cluster() as c:
        fleet = Fleet(c)
        await fleet.add("well")
        await fleet.renew("well")
        await fleet.add("mute", ready=None)
        async with c.running(LIFECYCLE):
            await fleet.pass_time(60, "well")
            assert (await fleet.node("mute")).status.conditions == []
            await fleet.pass_time(10, "well")
            node = await fleet.node("mute")
            assert {
                (condition.status, condition.reason, condition.message) for condition in node.status.conditions
            } == {("Unknown", "NodeStatusNeverUpdated", "Kubelet never posted node status.")}
            assert {condition.lastHeartbeatTime for condition in node.status.conditions} == {
                node.metadata.creationTimestamp
            }


async def test_node_conditions_become_taints_immediately() -> None:
    async with cluster() as c:
        fleet = Fleet(c)
        await fleet.add("a")
        await fleet.add("b")
        await fleet.renew("a", "b")
        async with c.running(LIFECYCLE):
            await fleet.post("a", MemoryPressure="True", PIDPressure="True")
            await c.clock.settle()
            assert await fleet.taints("a") == [("memory-pressure", "NoSchedule"), ("pid-pressure", "NoSchedule")]
            await fleet.post("a", DiskPressure="True", NetworkUnavailable="True")
            await c.clock.settle()
            assert await fleet.taints("a") == [
                ("disk-pressure", "NoSchedule"),
                ("network-unavailable", "NoSchedule"),
            ]
            await fleet.post("a", NetworkUnavailable="False")
            await c.client.for_kind(Node).patch("a", {"spec": {"unschedulable": True}})
            await c.clock.settle()
            assert await fleet.taints("a") == [("unschedulable", "NoSchedule")]
            await fleet.post("a", "False", NetworkUnavailable="False")
            await c.client.for_kind(Node).patch("a", {"spec": {"unschedulable": None}}, type=PatchType.MERGE)
            await c.clock.settle()
            assert await fleet.taints("a") == [("not-ready", "NoSchedule")]
            await c.clock.advance(6)
            assert await fleet.taints("a") == [("not-ready", "NoExecute"), ("not-ready", "NoSchedule")]
            await fleet.post("a", NetworkUnavailable="False")
            await c.clock.advance(6)
            assert await fleet.taints("a") == []


async def test_not_ready_and_unreachable_taints_exclude_each_other() -> None:
    async with cluster() as c:
        fleet = Fleet(c)
        await fleet.add("a", ready="False")
        await fleet.add("b")
        async with c.running(LIFECYCLE):
            await fleet.pass_time(10, "b")
            assert await fleet.taints("a") == [("not-ready", "NoExecute"), ("not-ready", "NoSchedule")]
            await fleet.pass_time(60, "b")
            assert await fleet.taints("a") == [("unreachable", "NoExecute"), ("unreachable", "NoSchedule")]
            await fleet.post("a", "False")
            await fleet.pass_time(10, "a", "b")
            assert await fleet.taints("a") == [("not-ready", "NoExecute"), ("not-ready", "NoSchedule")]


async def test_no_execute_taints_are_rate_limited_and_skip_recovered_nodes() -> None:
    async with cluster() as c:
        fleet = Fleet(c)
        names = [f"n{index}" for index in range(8)]
        for name in names:
            await fleet.add(name)
        async with c.running(LIFECYCLE):
            await fleet.pass_time(10, *names)
            for name in names[:2]:
                await fleet.post(name, "False")
            await fleet.pass_time(6, *names)
            tainted = [name for name in names if ("not-ready", "NoExecute") in await fleet.taints(name)]
            assert tainted == ["n0"], "one node is tainted every ten seconds"
            await fleet.post("n1")
            await fleet.pass_time(30, *names)
            assert await fleet.taints("n1") == [], "n1 recovered before it was tainted"
            for name in names[1:3]:
                await fleet.post(name, "False")
            start = c.clock.now()
            await fleet.pass_time(30, *names)
            added = []
            for name in names[1:3]:
                taint = next(taint for taint in (await fleet.node(name)).spec.taints if taint.effect == "NoExecute")
                assert taint.timeAdded is not None
                added.append(times.parse_time(taint.timeAdded) - start)
            assert added[1] - added[0] >= 9


async def test_no_node_gets_no_execute_taint_while_all_nodes_are_unreachable() -> None:
    async with cluster() as c:
        fleet = Fleet(c)
        await fleet.add("a", zone="x")
        await fleet.add("b", zone="y")
        async with c.running(LIFECYCLE):
            await fleet.pass_time(30, "a", "b")
            await fleet.pass_time(200)
            for name in ("a", "b"):
                assert await fleet.taints(name) == [("unreachable", "NoSchedule")]
            await fleet.post("a")
            await fleet.pass_time(40, "a")
            assert await fleet.taints("a") == []
            assert ("unreachable", "NoExecute") in await fleet.taints("b")


async def test_partially_disrupted_zone_stops_or_slows_tainting_by_its_size() -> None:
    async with cluster() as c:
        fleet = Fleet(c)
        names = [f"n{index}" for index in range(5)]
        for name in names:
            await fleet.add(name, zone="x")
        config = ControllerConfig(large_cluster_size_threshold=50)
        async with c.running(LIFECYCLE, config=config):
            await fleet.pass_time(10, *names)
            for name in names[:4]:
                await fleet.post(name, "False")
            await fleet.pass_time(120, *names)
            lost = [name for name in names if ("not-ready", "NoExecute") in await fleet.taints(name)]
            assert lost == []
        async with c.running(LIFECYCLE, config=ControllerConfig(large_cluster_size_threshold=2)):
            await fleet.pass_time(60, *names)
            lost = [name for name in names if ("not-ready", "NoExecute") in await fleet.taints(name)]
            assert len(lost) <= 1
            await fleet.pass_time(110, *names)
            more = [name for name in names if ("not-ready", "NoExecute") in await fleet.taints(name)]
            assert len(more) == len(lost) + 1, "one node is tainted every hundred seconds"


async def test_deprecated_labels_are_reconciled() -> None:
    async with cluster() as c:
        fleet = Fleet(c)
        await fleet.add("a", labels={"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "plan9"})
        async with c.running(LIFECYCLE):
            labels = (await fleet.node("a")).metadata.labels
            assert labels["beta.kubernetes.io/os"] == "linux"


async def test_the_second_run_writes_nothing() -> None:
    async with cluster() as c:
        fleet = Fleet(c)
        await fleet.account()
        for name in ("lives", "dies"):
            await fleet.add(name)
        await fleet.pod("a", "dies")
        async with c.running(LIFECYCLE, EVICTION):
            await fleet.pass_time(80, "lives")
            assert ("unreachable", "NoExecute") in await fleet.taints("dies")
        before = await resource_versions(c)
        async with c.running(LIFECYCLE, EVICTION):
            await fleet.pass_time(80, "lives")
        assert await resource_versions(c) == before


async def test_heartbeat_not_yet_in_the_cache_keeps_the_node_ready() -> None:
    async with cluster() as c:
        fleet = Fleet(c)
        for name in ("lives", "late"):
            await fleet.add(name)
        async with lagging_controller(c, LIFECYCLE, 1) as slow:
            for _ in range(5):
                await fleet.renew("lives")
                await c.clock.advance(10)
                while slow.step():
                    await c.clock.settle()
            await fleet.post("late")
            await fleet.renew("lives")
            await c.clock.advance(6)
            node = await fleet.node("late")
            assert {condition.status for condition in node.status.conditions if condition.type == "Ready"} == {"True"}


async def mark_with_stale_leases(**gates: bool) -> list[set[str]]:
    """Let the leases of two nodes be renewed while the cache of the controller shows no renewal. Return the statuses of
    the Ready conditions, and those once the cache has caught up."""
    config = replace(CONFIG, feature_gates=FeatureGates(gates, level=37))
    async with cluster() as c:
        fleet = Fleet(c)
        names = ("a", "b")
        for name in names:
            await fleet.add(name)
        await fleet.renew(*names)
        statuses = []
        async with lagging_controller(c, LIFECYCLE, 1, config=config) as slow:
            for _ in range(6):
                await c.clock.advance(10)
                await fleet.renew(*names)
            await c.clock.advance(6)
            statuses.append({ready_status(await fleet.node(name)) for name in names})
            slow.is_on = False
            while slow.step():
                await c.clock.settle()
            await fleet.pass_time(20, *names)
            statuses.append({ready_status(await fleet.node(name)) for name in names})
        return statuses


async def test_nodes_are_not_marked_while_the_cached_leases_are_stale() -> None:
    assert await mark_with_stale_leases() == [{"True"}, {"True"}]
    assert await mark_with_stale_leases(NodeControllerLeaseCircuitBreaker=False) == [{"Unknown"}, {"Unknown"}]


async def test_node_whose_lease_has_expired_on_the_server_is_marked() -> None:
    config = replace(CONFIG, feature_gates=FeatureGates(level=37))
    async with cluster() as c:
        fleet = Fleet(c)
        for name in ("lives", "dies", "without"):
            await fleet.add(name)
        await fleet.renew("lives", "dies")
        async with c.running(LIFECYCLE, config=config):
            await fleet.pass_time(60, "lives")
            statuses = {name: ready_status(await fleet.node(name)) for name in ("lives", "dies", "without")}
            assert statuses == {"lives": "True", "dies": "Unknown", "without": "Unknown"}
