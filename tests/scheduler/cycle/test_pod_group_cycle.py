"""Gang scheduling: the pods of a group are scheduled all together or not at all."""

from typing import Any

import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.core_v1 import Pod, PodSchedulingGroup
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.scheduling_v1 import PriorityClass
from sampan.api.types.scheduling_v1beta1 import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from sampan.machinery import errors
from sampan.machinery.client import DeleteParameters
from sampan.scheduler.config import ProfileConfig, SchedulerConfig
from sampan.scheduler.config.config_file import API_VERSION, KIND, parse_config
from tests.scheduler.extenders.fake_extender import running_extender
from tests.scheduler.running_scheduler import NAMESPACE, RunningScheduler, running_scheduler

RUNTIME_CONFIG = {"scheduling.k8s.io/v1beta1": True}
GATES = FeatureGates({"GenericWorkload": True})


def group(name: str, min_count: int) -> PodGroup:
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(minCount=min_count))
    return PodGroup(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=PodGroupSpec(schedulingPolicy=policy))


def member(cluster: RunningScheduler, name: str, group_name: str, cpu: str = "1") -> Pod:
    pod = cluster.pod(name, cpu=cpu)
    pod.spec.schedulingGroup = PodSchedulingGroup(podGroupName=group_name)
    return pod


async def count_bound_pods(cluster: RunningScheduler) -> dict[str, int]:
    """How many pods of each group are bound."""
    counts: dict[str, int] = {}
    for pod in (await cluster.cluster.client.for_kind(Pod).list()).items:
        name = pod.spec.schedulingGroup.podGroupName
        counts[name] = counts.get(name, 0) + bool(pod.spec.nodeName)
    return counts


def gate_message(cluster: RunningScheduler, pod: Any) -> str:
    queued = cluster.scheduler.queue.get(pod.metadata.uid)
    return queued.gate_message if queued is not None else ""


async def test_pods_are_gated_until_min_count_pods_exist() -> None:
    async with running_scheduler(runtime_config=RUNTIME_CONFIG, feature_gates=GATES) as cluster:
        await cluster.node("a")
        first = await cluster.create(member(cluster, "p0", "g"))
        await cluster.settle()
        assert gate_message(cluster, first) == 'waiting for pods\'s pod group "g" to appear in scheduling queue'
        await cluster.cluster.client.for_kind(PodGroup).create(group("g", 3))
        await cluster.settle()
        assert gate_message(cluster, first) == "waiting for minCount pods from a gang to appear in scheduling queue"
        await cluster.create(member(cluster, "p1", "g"))
        assert await cluster.find_nodes("p0", "p1") == ["", ""]
        await cluster.create(member(cluster, "p2", "g"))
        assert await cluster.find_nodes("p0", "p1", "p2") == ["a", "a", "a"]
        await cluster.create(member(cluster, "p3", "g"))
        assert await cluster.find_nodes("p3") == ["a"], "pods beyond minCount are scheduled one by one"


async def test_gang_is_scheduled_completely_or_not_at_all() -> None:
    async with running_scheduler(runtime_config=RUNTIME_CONFIG, feature_gates=GATES) as cluster:
        await cluster.node("a", cpu="2")
        await cluster.cluster.client.for_kind(PodGroup).create(group("g", 3))
        for number in range(3):
            await cluster.create(member(cluster, f"p{number}", "g"))
        await cluster.cluster.clock.advance(30)
        assert await count_bound_pods(cluster) == {"g": 0}
        table = cluster.scheduler.table
        assert not table.pods[table.rows["a"]], "the resources of the other members are released"
        await cluster.create(cluster.pod("alone", cpu="2"))
        assert await cluster.find_nodes("alone") == ["a"]
        await cluster.node("b", cpu="3")
        await cluster.cluster.clock.advance(30)
        assert await cluster.find_nodes("p0", "p1", "p2") == ["b", "b", "b"]


async def test_error_of_a_member_leaves_no_assumed_pods() -> None:
    failures = [500]

    def filter_or_fail(body: dict[str, Any]) -> Any:
        is_failing = body["Pod"]["metadata"]["name"] == "p1" and failures
        return failures.pop() if is_failing else {"NodeNames": body["NodeNames"]}

    async with running_extender(filter=filter_or_fail) as server:
        verbs = {"urlPrefix": server.url, "filterVerb": "filter", "nodeCacheCapable": True}
        config = parse_config({"apiVersion": API_VERSION, "kind": KIND, "extenders": [verbs]})
        async with running_scheduler(config, runtime_config=RUNTIME_CONFIG, feature_gates=GATES) as cluster:
            await cluster.node("a")
            await cluster.cluster.client.for_kind(PodGroup).create(group("g", 3))
            for number in range(3):
                await cluster.create(member(cluster, f"p{number}", "g"))
            await cluster.settle()
            assert not failures
            assert cluster.scheduler.cache.assumed_count == 0
            assert await count_bound_pods(cluster) == {"g": 0}
            assert (await cluster.condition("p1")).reason == "SchedulerError"
            await cluster.cluster.clock.advance(30)
            assert await count_bound_pods(cluster) == {"g": 3}


async def group_condition(cluster: RunningScheduler, name: str = "g") -> tuple[str, str, str]:
    """Status, reason and message of the condition of the group."""
    await cluster.settle()
    (condition,) = (await cluster.cluster.client.for_kind(PodGroup).get(name, NAMESPACE)).status.conditions
    assert condition.type == "PodGroupInitiallyScheduled"
    return condition.status, condition.reason, condition.message


async def test_pod_group_condition_shows_whether_it_is_scheduled() -> None:
    async with running_scheduler(runtime_config=RUNTIME_CONFIG, feature_gates=GATES) as cluster:
        await cluster.node("a", cpu="2")
        await cluster.cluster.client.for_kind(PodGroup).create(group("g", 3))
        for number in range(3):
            await cluster.create(member(cluster, f"p{number}", "g"))
        shortage = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
        message = f"{shortage}, pod group preemption: No preemption victims found for incoming preemptor"
        assert await group_condition(cluster) == ("False", "Unschedulable", message)
        messages = {(await cluster.condition(f"p{number}")).message for number in range(3)}
        assert messages == {
            f"pod group is unschedulable, {message}",
            "0/1 nodes are available: 1 Insufficient cpu.",
        }
        await cluster.node("b", cpu="2")
        await cluster.cluster.clock.advance(30)
        assert await group_condition(cluster) == ("True", "Scheduled", "")


@pytest.mark.parametrize(("min_count", "is_possible"), [(3, True), (5, False)])
async def test_preemption_makes_room_for_the_whole_group_or_not_at_all(min_count: int, is_possible: bool) -> None:
    """Each of four nodes has room for one pod, and three are taken by pods of lower priority."""
    async with running_scheduler(runtime_config=RUNTIME_CONFIG, feature_gates=GATES) as cluster:
        high = PriorityClass(value=1000)
        high.metadata.name = "high"
        await cluster.cluster.client.for_kind(PriorityClass).create(high)
        for number in range(4):
            await cluster.node(f"n{number}", cpu="1")
        for number in range(3):
            await cluster.create(cluster.pod(f"low{number}", cpu="1"))
            await cluster.settle()
        gang = group("g", min_count)
        gang.spec.priorityClassName = "high"
        await cluster.cluster.client.for_kind(PodGroup).create(gang)
        for number in range(min_count):
            pod = member(cluster, f"p{number}", "g")
            pod.spec.priorityClassName = "high"
            await cluster.create(pod)
        await cluster.settle()
        if not is_possible:
            await cluster.cluster.clock.advance(60)
            assert await cluster.events("Preempted") == []
            assert "" not in await cluster.find_nodes("low0", "low1", "low2")
            shortage = "minCount (5) cannot be satisfied: {} scheduled, {} remaining"
            message = f"{shortage.format(1, 3)}, pod group preemption: {shortage.format(4, 0)}"
            assert await group_condition(cluster) == ("False", "Unschedulable", message)
            return
        assert len(await cluster.events("Preempted")) == 2
        await cluster.cluster.clock.advance(60)
        assert len(set(await cluster.find_nodes("p0", "p1", "p2"))) == 3
        assert await group_condition(cluster) == ("True", "Scheduled", "")
        assert not cluster.scheduler.nominator.by_node
        assert sum(map(len, cluster.scheduler.table.pods)) == 4


@pytest.mark.parametrize(("slots", "min_count"), [(4, 3), (10, 6), (12, 12)])
async def test_gangs_that_each_need_more_than_half_are_scheduled_in_turn(slots: int, min_count: int) -> None:
    """The pods of two gangs arrive in turn; one gang is scheduled, and the other once the first is deleted."""
    async with running_scheduler(runtime_config=RUNTIME_CONFIG, feature_gates=GATES) as cluster:
        for number in range(slots):
            await cluster.node(f"n{number}", cpu="1")
        for name in ("a", "b"):
            await cluster.cluster.client.for_kind(PodGroup).create(group(name, min_count))
        for number in range(min_count):
            for name in ("a", "b"):
                await cluster.create(member(cluster, f"{name}{number}", name))
        await cluster.cluster.clock.advance(60)
        counts = await count_bound_pods(cluster)
        assert sorted(counts.values()) == [0, min_count]
        winner = max(counts, key=lambda name: counts[name])
        for number in range(min_count):
            client = cluster.cluster.client.for_kind(Pod)
            await client.delete(f"{winner}{number}", NAMESPACE, options=DeleteParameters(grace_period_s=0))
        await cluster.cluster.clock.advance(60)
        other = "b" if winner == "a" else "a"
        assert await count_bound_pods(cluster) == {other: min_count}


async def test_incomplete_gang_releases_its_nodes_after_the_permit_timeout() -> None:
    """One member has another scheduler, so that the other member waits at Permit until the timeout."""
    args = {"GangScheduling": {"permitTimeoutSeconds": 20}}
    config = SchedulerConfig(profiles=(ProfileConfig(args=args),))
    async with running_scheduler(config, RUNTIME_CONFIG, GATES) as cluster:
        await cluster.node("a", cpu="2")
        await cluster.cluster.client.for_kind(PodGroup).create(group("g", 2))
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
        assert await count_bound_pods(cluster) == {"g": 0}


async def test_scheduling_group_is_dropped_if_the_api_is_not_served() -> None:
    async with running_scheduler() as cluster:
        await cluster.node("a")
        pod = await cluster.create(member(cluster, "p", "g"))
        assert pod.spec.schedulingGroup is None
        assert await cluster.find_nodes("p") == ["a"]


async def test_pods_with_another_priority_than_their_group_are_not_scheduled() -> None:
    async with running_scheduler(runtime_config=RUNTIME_CONFIG, feature_gates=GATES) as cluster:
        high = PriorityClass(value=1000)
        high.metadata.name = "high"
        await cluster.cluster.client.for_kind(PriorityClass).create(high)
        await cluster.node("a")
        await cluster.cluster.client.for_kind(PodGroup).create(group("g", 1))
        pod = member(cluster, "p", "g")
        pod.spec.priorityClassName = "high"
        await cluster.create(pod)
        message = (
            "all pods in a single pod group should have the same priority as the pod group's priority, got 1000 and 0"
        )
        assert await group_condition(cluster) == ("False", "SchedulerError", message)
        condition = await cluster.condition("p")
        assert (condition.reason, condition.message) == ("SchedulerError", message)


async def test_a_group_has_the_priority_of_its_class() -> None:
    async with running_scheduler(runtime_config=RUNTIME_CONFIG, feature_gates=GATES) as cluster:
        high = PriorityClass(value=1000)
        high.metadata.name = "high"
        await cluster.cluster.client.for_kind(PriorityClass).create(high)
        groups = cluster.cluster.client.for_kind(PodGroup)
        gang = group("g", 1)
        gang.spec.priorityClassName = "high"
        assert (await groups.create(gang)).spec.priority == 1000
        other = group("h", 1)
        other.spec.priorityClassName, other.spec.priority = "high", 7
        with pytest.raises(errors.Forbidden, match=r"priority set in the pod group \(7\) must match"):
            await groups.create(other)
