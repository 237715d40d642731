"""Gangs: pods of a group that get nodes all together or not at all."""

from typing import Any

import pytest

from sampan.api.types.core_v1 import Pod, PodSchedulingGroup
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.scheduling_v1 import PriorityClass
from sampan.api.types.scheduling_v1alpha2 import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from sampan.machinery.client import Delete
from sampan.scheduler.config import ProfileConfig, SchedulerConfig
from sampan.scheduler.config.config_file import API_VERSION, KIND, parse_config
from tests.scheduler.extenders.fake_extender import serving
from tests.scheduler.running_scheduler import NAMESPACE, Running, running

ON = {"scheduling.k8s.io/v1alpha2": True}


def group(name: str, least: int) -> PodGroup:
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(minCount=least))
    return PodGroup(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=PodGroupSpec(schedulingPolicy=policy))


def member(cluster: Running, name: str, of: str, cpu: str = "1") -> Pod:
    pod = cluster.pod(name, cpu=cpu)
    pod.spec.schedulingGroup = PodSchedulingGroup(podGroupName=of)
    return pod


async def bound(cluster: Running) -> dict[str, int]:
    """How many pods of each group have nodes."""
    counts: dict[str, int] = {}
    for pod in (await cluster.cluster.client.of(Pod).list()).items:
        name = pod.spec.schedulingGroup.podGroupName
        counts[name] = counts.get(name, 0) + bool(pod.spec.nodeName)
    return counts


def why(cluster: Running, pod: Any) -> str:
    queued = cluster.scheduler.queue.get(pod.metadata.uid)
    return queued.gate_message if queued is not None else ""


async def test_nobody_comes_before_the_group_is_whole() -> None:
    async with running(runtime_config=ON) as cluster:
        await cluster.node("a")
        first = await cluster.create(member(cluster, "p0", "g"))
        await cluster.settle()
        assert why(cluster, first) == 'waiting for pods\'s pod group "g" to appear in scheduling queue'
        await cluster.cluster.client.of(PodGroup).create(group("g", 3))
        await cluster.settle()
        assert why(cluster, first) == "waiting for minCount pods from a gang to appear in scheduling queue"
        await cluster.create(member(cluster, "p1", "g"))
        assert await cluster.where("p0", "p1") == ["", ""]
        await cluster.create(member(cluster, "p2", "g"))
        assert await cluster.where("p0", "p1", "p2") == ["a", "a", "a"]
        await cluster.create(member(cluster, "p3", "g"))
        assert await cluster.where("p3") == ["a"], "more than the least come one by one"


async def test_all_or_none() -> None:
    async with running(runtime_config=ON) as cluster:
        await cluster.node("a", cpu="2")
        await cluster.cluster.client.of(PodGroup).create(group("g", 3))
        for number in range(3):
            await cluster.create(member(cluster, f"p{number}", "g"))
        await cluster.cluster.clock.advance(30)
        assert await bound(cluster) == {"g": 0}
        table = cluster.scheduler.table
        assert not table.pods[table.rows["a"]], "what the others held is free again"
        await cluster.create(cluster.pod("alone", cpu="2"))
        assert await cluster.where("alone") == ["a"]
        await cluster.node("b", cpu="3")
        await cluster.cluster.clock.advance(30)
        assert await cluster.where("p0", "p1", "p2") == ["b", "b", "b"]


async def test_an_error_with_one_pod_leaves_no_other_between_queue_and_node() -> None:
    failures = [500]

    def filtered(body: dict[str, Any]) -> Any:
        is_failing = body["Pod"]["metadata"]["name"] == "p1" and failures
        return failures.pop() if is_failing else {"NodeNames": body["NodeNames"]}

    async with serving(filter=filtered) as server:
        verbs = {"urlPrefix": server.url, "filterVerb": "filter", "nodeCacheCapable": True}
        config = parse_config({"apiVersion": API_VERSION, "kind": KIND, "extenders": [verbs]})
        async with running(config, runtime_config=ON) as cluster:
            await cluster.node("a")
            await cluster.cluster.client.of(PodGroup).create(group("g", 3))
            for number in range(3):
                await cluster.create(member(cluster, f"p{number}", "g"))
            await cluster.settle()
            assert not failures
            assert cluster.scheduler.cache.assumed_count == 0
            assert await bound(cluster) == {"g": 0}
            assert (await cluster.condition("p1")).reason == "SchedulerError"
            await cluster.cluster.clock.advance(30)
            assert await bound(cluster) == {"g": 3}


async def group_condition(cluster: Running, name: str = "g") -> tuple[str, str, str]:
    """What the group says of itself."""
    await cluster.settle()
    (condition,) = (await cluster.cluster.client.of(PodGroup).get(name, NAMESPACE)).status.conditions
    assert condition.type == "PodGroupScheduled"
    return condition.status, condition.reason, condition.message


async def test_the_group_says_whether_it_has_its_nodes() -> None:
    async with running(runtime_config=ON) as cluster:
        await cluster.node("a", cpu="2")
        await cluster.cluster.client.of(PodGroup).create(group("g", 3))
        for number in range(3):
            await cluster.create(member(cluster, f"p{number}", "g"))
        assert await group_condition(cluster) == ("False", "Unschedulable", "pod group is unschedulable")
        messages = {(await cluster.condition(f"p{number}")).message for number in range(3)}
        assert messages == {
            "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled",
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are "
            "available: 1 No preemption victims found for incoming pod.",
        }
        await cluster.node("b", cpu="2")
        await cluster.cluster.clock.advance(30)
        assert await group_condition(cluster) == ("True", "Scheduled", "")


@pytest.mark.parametrize(("least", "is_possible"), [(3, True), (5, False)])
async def test_room_is_made_for_the_whole_group_or_not_at_all(least: int, is_possible: bool) -> None:
    """Four nodes of one pod each, three of them taken by pods that matter less."""

    async with running(runtime_config=ON) as cluster:
        high = PriorityClass(value=1000)
        high.metadata.name = "high"
        await cluster.cluster.client.of(PriorityClass).create(high)
        for number in range(4):
            await cluster.node(f"n{number}", cpu="1")
        for number in range(3):
            await cluster.create(cluster.pod(f"low{number}", cpu="1"))
            await cluster.settle()
        await cluster.cluster.client.of(PodGroup).create(group("g", least))
        for number in range(least):
            pod = member(cluster, f"p{number}", "g")
            pod.spec.priorityClassName = "high"
            await cluster.create(pod)
        await cluster.settle()
        if not is_possible:
            await cluster.cluster.clock.advance(60)
            assert await cluster.events("Preempted") == []
            assert "" not in await cluster.where("low0", "low1", "low2")
            assert await group_condition(cluster) == ("False", "Unschedulable", "pod group is unschedulable")
            return
        assert len(await cluster.events("Preempted")) == 2
        await cluster.cluster.clock.advance(60)
        assert len(set(await cluster.where("p0", "p1", "p2"))) == 3
        assert await group_condition(cluster) == ("True", "Scheduled", "")
        assert not cluster.scheduler.nominator.by_node
        assert sum(map(len, cluster.scheduler.table.pods)) == 4


@pytest.mark.parametrize(("slots", "least"), [(4, 3), (10, 6), (12, 12)])
async def test_two_gangs_that_each_need_more_than_half(slots: int, least: int) -> None:
    """They come mixed, and one of them gets what it needs; when it goes, the other does."""

    async with running(runtime_config=ON) as cluster:
        for number in range(slots):
            await cluster.node(f"n{number}", cpu="1")
        for name in ("a", "b"):
            await cluster.cluster.client.of(PodGroup).create(group(name, least))
        for number in range(least):
            for name in ("a", "b"):
                await cluster.create(member(cluster, f"{name}{number}", name))
        await cluster.cluster.clock.advance(60)
        counts = await bound(cluster)
        assert sorted(counts.values()) == [0, least]
        winner = max(counts, key=lambda name: counts[name])
        for number in range(least):
            client = cluster.cluster.client.of(Pod)
            await client.delete(f"{winner}{number}", NAMESPACE, options=Delete(grace_period_s=0))
        await cluster.cluster.clock.advance(60)
        other = "b" if winner == "a" else "a"
        assert await bound(cluster) == {other: least}


async def test_a_gang_does_not_hold_nodes_for_ever() -> None:
    """One of them is kept out by a gate of its own: those with a node give it back when their time is over."""

    args = {"GangScheduling": {"permitTimeoutSeconds": 20}}
    config = SchedulerConfig(profiles=(ProfileConfig(args=args),))
    async with running(config, ON) as cluster:
        await cluster.node("a", cpu="2")
        await cluster.cluster.client.of(PodGroup).create(group("g", 2))
        await cluster.create(member(cluster, "p0", "g"))
        other = member(cluster, "p1", "g")
        other.spec.schedulerName = "somebody-else"
        await cluster.create(other)
        await cluster.settle()
        table = cluster.scheduler.table
        assert table.pods[table.rows["a"]]
        await cluster.cluster.clock.advance(21)
        notes = [event.note for event in await cluster.events("FailedScheduling")]
        assert any("rejected due to timeout after waiting 20s at plugin GangScheduling" in note for note in notes)
        assert await bound(cluster) == {"g": 0}


async def test_a_server_that_serves_no_groups_drops_the_field() -> None:
    async with running() as cluster:
        await cluster.node("a")
        pod = await cluster.create(member(cluster, "p", "g"))
        assert pod.spec.schedulingGroup is None
        assert await cluster.where("p") == ["a"]
