"""The scheduler against an API server: bindings, unschedulable pods, preemption and failures."""

import asyncio
from typing import Any

from sampan.api.types.core_v1 import Binding, Node, ObjectReference, Pod, PodSchedulingGate, Taint
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.scheduling_v1 import PriorityClass
from sampan.machinery.client import PatchType
from sampan.scheduler.config import DEFAULT_PLUGINS, PluginChoice, ProfileConfig, SchedulerConfig
from sampan.scheduler.config.config_file import API_VERSION, KIND, parse_config
from sampan.scheduler.framework import Code, CycleState, Handle, NodeView, PluginScope, ScalarPlugin, Status
from tests.scheduler.running_scheduler import NAMESPACE, RunningScheduler, running_scheduler


async def test_pods_are_spread_and_have_events() -> None:
    async with running_scheduler() as cluster:
        for name in ("a", "b", "c"):
            await cluster.node(name)
        for number in range(6):
            await cluster.create(cluster.pod(f"p{number}"))
        assert await cluster.find_nodes(*(f"p{number}" for number in range(6))) == ["a", "b", "c"] * 2
        assert (await cluster.condition("p0")).status == "True"
        (event,) = [event for event in await cluster.events("Scheduled") if event.regarding.name == "p0"]
        assert event.note == "Successfully assigned default/p0 to a"
        assert (event.type, event.action, event.reportingController) == ("Normal", "Binding", "default-scheduler")
        decision = cluster.scheduler.history.get(event.regarding.uid)
        assert decision is not None
        assert decision.node == "a"


async def test_unschedulable_pod_has_a_reason_and_is_requeued_by_helpful_events() -> None:
    async with running_scheduler() as cluster:
        await cluster.create(cluster.pod("big", cpu="8"))
        await cluster.settle()
        assert (await cluster.condition("big")).message == "no nodes available to schedule pods"
        await cluster.node("a")
        await cluster.node("b", taints=[Taint(key="k", value="v", effect="NoSchedule")], cpu="16")
        await cluster.cluster.clock.advance(15)
        condition = await cluster.condition("big")
        assert (condition.status, condition.reason) == ("False", "Unschedulable")
        assert condition.message == (
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). "
            "no new claims to deallocate, "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        )
        notes = [event.note for event in await cluster.events("FailedScheduling")]
        assert condition.message in notes
        attempts = _attempts(cluster, await cluster.get("big"))
        await cluster.cluster.client.for_kind(Node).patch("a", {"metadata": {"annotations": {"x": "y"}}})
        await cluster.cluster.clock.advance(30)
        assert _attempts(cluster, await cluster.get("big")) == attempts, (
            "an event that cannot help does not requeue the pod"
        )
        await cluster.cluster.client.for_kind(Node).patch("b", {"spec": {"taints": None}}, type=PatchType.MERGE)
        assert await cluster.find_nodes("big") == ["b"]


def _attempts(cluster: RunningScheduler, pod: Pod | None) -> int:
    assert pod is not None
    queued = cluster.scheduler.queue.get(pod.metadata.uid)
    assert queued is not None
    return queued.attempts


async def test_pod_with_scheduling_gates_waits() -> None:
    async with running_scheduler() as cluster:
        await cluster.node("a")
        pod = cluster.pod("gated")
        pod.spec.schedulingGates = [PodSchedulingGate(name="example.com/wait")]
        await cluster.create(pod)
        await cluster.cluster.clock.advance(60)
        assert await cluster.find_nodes("gated") == [""]
        assert (await cluster.condition("gated")).reason == "SchedulingGated"
        assert cluster.scheduler.queue.counts()["gated"] == 1
        await cluster.cluster.client.for_kind(Pod).patch(
            "gated", {"spec": {"schedulingGates": None}}, NAMESPACE, type=PatchType.MERGE
        )
        assert await cluster.find_nodes("gated") == ["a"]


async def test_pod_of_higher_priority_preempts() -> None:
    async with running_scheduler() as cluster:
        for name, value in (("low", 10), ("high", 1000)):
            priority_class = PriorityClass(value=value)
            priority_class.metadata.name = name
            await cluster.cluster.client.for_kind(PriorityClass).create(priority_class)
        await cluster.node("a", cpu="2")
        await cluster.node("b", cpu="2")
        for number, cpu in enumerate(("1500m", "1", "900m")):
            pod = cluster.pod(f"low{number}", cpu=cpu)
            pod.spec.priorityClassName = "low"
            await cluster.create(pod)
            await cluster.settle()
        assert sorted(await cluster.find_nodes("low0", "low1", "low2")) == ["a", "b", "b"]
        pod = cluster.pod("high", cpu="1500m")
        pod.spec.priorityClassName = "high"
        created_pod = await cluster.create(pod)
        await cluster.cluster.clock.advance(30)
        assert await cluster.find_nodes("low0", "low1", "low2", "high") == ["gone", "b", "b", "a"]
        (event,) = await cluster.events("Preempted")
        assert event.note == f"Preempted by pod {created_pod.metadata.uid} on node a"
        assert event.regarding.name == "low0"
        assert not cluster.scheduler.nominator.by_node


class Stubborn:
    """A plugin whose Bind fails twice."""

    name = "Stubborn"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        self.left = 2
        self.reserved: list[str] = []

    def reserve(self, cycle: CycleState, node: str) -> Status | None:
        self.reserved.append(cycle.info.name)
        return None

    def unreserve(self, cycle: CycleState, node: str) -> None:
        self.reserved.remove(cycle.info.name)

    async def bind(self, cycle: CycleState, node: str) -> Status | None:
        self.left -= 1
        return Status(Code.ERROR, ("not now",)) if self.left >= 0 else Status(Code.SKIP)


async def test_failed_binding_is_rolled_back_and_retried() -> None:
    profile = ProfileConfig(plugins=(PluginChoice(f"{__name__}:Stubborn"), *DEFAULT_PLUGINS))

    async with running_scheduler(SchedulerConfig(profiles=(profile,))) as cluster:
        await cluster.node("a", cpu="1")
        await cluster.create(cluster.pod("p", cpu="1"))
        await cluster.settle()
        condition = await cluster.condition("p")
        assert (condition.reason, condition.message) == ("SchedulerError", 'running Bind plugin "Stubborn": not now')
        assert not cluster.scheduler.table.requested.any()
        await cluster.cluster.clock.advance(20)
        assert await cluster.find_nodes("p") == ["a"]
        framework = cluster.scheduler.profiles.get("default-scheduler")
        assert framework is not None
        (plugin,) = (plugin for plugin in framework.plugins if isinstance(plugin, Stubborn))
        assert plugin.reserved == ["p"]


async def test_pod_of_another_scheduler_is_ignored() -> None:
    async with running_scheduler() as cluster:
        await cluster.node("a")
        await cluster.node("b")
        pod = cluster.pod("p")
        pod.spec.schedulerName = "other"
        await cluster.create(pod)
        await cluster.settle()
        assert await cluster.find_nodes("p") == [""]
        assert len(cluster.scheduler.queue) == 0


class Waits:
    name = "Waits"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        pass

    def permit(self, cycle: CycleState, node: str) -> Status | None:
        return Status(Code.WAIT, wait_s=10) if cycle.info.name.startswith("wait") else None


async def test_permit_waits_until_allowed_or_timed_out() -> None:
    profile = ProfileConfig(plugins=(*DEFAULT_PLUGINS, PluginChoice(f"{__name__}:Waits")))

    async with running_scheduler(SchedulerConfig(profiles=(profile,))) as cluster:
        await cluster.node("a")
        await cluster.create(cluster.pod("wait-allowed"))
        await cluster.create(cluster.pod("wait-too-long"))
        await cluster.create(cluster.pod("free"))
        assert await cluster.find_nodes("wait-allowed", "wait-too-long", "free") == ["", "", "a"]
        for waiting in cluster.scheduler.waiting:
            if waiting.info.name == "wait-allowed":
                waiting.allow("Waits")
        assert await cluster.find_nodes("wait-allowed", "wait-too-long") == ["a", ""]
        await cluster.cluster.clock.advance(11)
        condition = await cluster.condition("wait-too-long")
        assert condition.message == (
            "0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin Waits."
        )


async def test_pod_that_another_scheduler_binds_first_stays_on_its_node() -> None:
    profile = ProfileConfig(plugins=(*DEFAULT_PLUGINS, PluginChoice(f"{__name__}:Waits")))

    async with running_scheduler(SchedulerConfig(profiles=(profile,))) as cluster:
        await cluster.node("a")
        pod = await cluster.create(cluster.pod("wait", cpu="1"))
        await cluster.settle()
        (waiting,) = cluster.scheduler.waiting
        await cluster.node("b")
        binding = Binding(metadata=ObjectMeta(name="wait"), target=ObjectReference(kind="Node", name="b"))
        await cluster.cluster.client.for_kind(Pod).create_subresource("binding", "wait", binding, NAMESPACE)
        waiting.allow("Waits")
        await cluster.cluster.clock.advance(30)
        assert await cluster.find_nodes("wait") == ["b"]
        assert await cluster.events("Scheduled") == []
        assert await cluster.events("FailedScheduling") == []
        assert cluster.scheduler.queue.get(pod.metadata.uid) is None
        table = cluster.scheduler.table
        requested_cpu = table.requested[0]
        assert {node: int(requested_cpu[row]) for node, row in table.rows.items()} == {"a": 0, "b": 1000}


class NamesEndInB(ScalarPlugin):
    name = "NamesEndInB"

    def filter_node(self, pod: Pod, node: NodeView) -> str:
        return "" if node.name.endswith("b") else "node(s) did not end in b"


async def test_custom_plugin_in_a_second_profile() -> None:
    own = ProfileConfig(scheduler_name="picky", plugins=(*DEFAULT_PLUGINS, PluginChoice(f"{__name__}:NamesEndInB")))

    async with running_scheduler(SchedulerConfig(profiles=(ProfileConfig(), own))) as cluster:
        await cluster.node("a")
        await cluster.node("b")
        for name in ("one", "two"):
            pod = cluster.pod(name)
            pod.spec.schedulerName = "picky"
            await cluster.create(pod)
        assert await cluster.find_nodes("one", "two") == ["b", "b"]
        (first, *_) = await cluster.events("Scheduled")
        assert first.reportingController == "picky"
        await cluster.cluster.client.for_kind(Node).delete("b")
        pod = cluster.pod("three")
        pod.spec.schedulerName = "picky"
        await cluster.create(pod)
        await cluster.settle()
        assert (await cluster.condition("three")).message.startswith(
            "0/1 nodes are available: 1 node(s) did not end in b."
        )
        await cluster.node("ab")  # the plugin registers no events: any event may help
        await cluster.cluster.clock.advance(10)
        assert await cluster.find_nodes("three") == ["ab"]


def config_with_two_profiles() -> SchedulerConfig:
    packing = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    profiles = [{}, {"schedulerName": "packing", "pluginConfig": [packing]}]
    return parse_config({"apiVersion": API_VERSION, "kind": KIND, "profiles": profiles})


async def test_profiles_use_their_own_plugin_arguments() -> None:
    async with running_scheduler(config_with_two_profiles()) as cluster:
        for name in ("a", "b"):
            await cluster.node(name)
        for number in range(4):
            pod = cluster.pod(f"p{number}", cpu="500m")
            pod.spec.schedulerName = "packing"
            await cluster.create(pod)
        assert len(set(await cluster.find_nodes(*(f"p{number}" for number in range(4))))) == 1
        await cluster.create(cluster.pod("usual"))
        assert await cluster.find_nodes("usual") != await cluster.find_nodes("p0")
        (event,) = [event for event in await cluster.events("Scheduled") if event.regarding.name == "p0"]
        assert event.reportingController == "packing"


async def test_deleted_pods_leave_the_queue_and_the_node_table() -> None:
    async with running_scheduler() as cluster:
        await cluster.node("a", cpu="1")
        await cluster.create(cluster.pod("big", cpu="8"))
        await cluster.settle()
        await cluster.cluster.client.for_kind(Pod).delete("big", NAMESPACE)
        await cluster.settle()
        assert len(cluster.scheduler.queue) == 0
        await cluster.create(cluster.pod("small", cpu="1"))
        assert await cluster.find_nodes("small") == ["a"]
        await cluster.cluster.client.for_kind(Pod).delete("small", NAMESPACE)
        await cluster.settle()
        assert not cluster.scheduler.table.requested.any()


async def test_two_concurrent_schedulers_bind_each_pod_once() -> None:
    """Two schedulers run at a time; the one that loses a race sees the node of the pod."""
    from sampan.scheduler.scheduler import make_scheduler

    async with running_scheduler() as cluster:
        other = make_scheduler(client=cluster.cluster.make_client("other"), clock=cluster.cluster.clock)
        async with asyncio.TaskGroup() as group:
            task: Any = group.create_task(other.run())
            await cluster.node("a")
            await cluster.node("b")
            for number in range(8):
                await cluster.create(cluster.pod(f"p{number}", cpu="1"))
            await cluster.cluster.clock.advance(30)
            assert "" not in await cluster.find_nodes(*(f"p{number}" for number in range(8)))
            for scheduler in (other, cluster.scheduler):
                assert len(scheduler.queue) == 0
                assert int(scheduler.table.requested[0].sum()) == 8000
            task.cancel()
