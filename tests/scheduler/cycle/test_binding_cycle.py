"""The binding cycle: nominated nodes, rejection, preemption, and failure between decision and binding."""

import asyncio
import re
from collections.abc import Awaitable, Callable

from sampan.api.types.core_v1 import Node, Pod
from sampan.api.types.scheduling_v1 import PriorityClass
from sampan.machinery.client import PatchType
from sampan.scheduler.config import DEFAULT_PLUGINS, PluginChoice, ProfileConfig, SchedulerConfig
from sampan.scheduler.framework import Code, CycleState, Handle, PluginScope, Status
from tests.eventually import eventually
from tests.scheduler.running_scheduler import NAMESPACE, RunningScheduler, running_scheduler

Scenario = Callable[[RunningScheduler], Awaitable[None]]


class Held:
    """A plugin that holds a pod at the extension point with which its name begins."""

    name = "Held"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        self._clock = handle.clock

    def permit(self, cycle: CycleState, node: str) -> Status | None:
        return Status(Code.WAIT, wait_s=60) if cycle.info.name.startswith("permit") else None

    def has_pre_bind(self, cycle: CycleState, node: str) -> bool:
        return cycle.info.name.startswith(("prebind", "faulty"))

    async def pre_bind(self, cycle: CycleState, node: str) -> Status | None:
        if cycle.info.name.startswith("prebind"):
            await self._clock.sleep(60)
        if cycle.info.name.startswith("faulty"):
            raise KeyError("forgotten")
        return None


def run_scenario(scenario: Scenario) -> None:
    profile = ProfileConfig(plugins=(*DEFAULT_PLUGINS, PluginChoice(f"{__name__}:Held")))

    async def main() -> None:
        async with running_scheduler(SchedulerConfig(profiles=(profile,))) as cluster:
            await cluster.node("a", cpu="1")
            await scenario(cluster)

    asyncio.run(main())


async def state(cluster: RunningScheduler, name: str) -> tuple[str, str]:
    """The node of the pod, and its nominated node."""
    await cluster.settle()
    pod = await cluster.get(name)
    assert pod is not None
    return pod.spec.nodeName, pod.status.nominatedNodeName


def test_the_node_of_a_waiting_pod_is_nominated() -> None:
    async def scenario(cluster: RunningScheduler) -> None:
        await cluster.create(cluster.pod("permit"))
        await cluster.create(cluster.pod("prebind"))
        await cluster.create(cluster.pod("at-once"))
        assert await state(cluster, "permit") == ("", "a")
        assert await state(cluster, "prebind") == ("", "a")
        assert await state(cluster, "at-once") == ("a", "")
        for waiting in cluster.scheduler.waiting:
            waiting.allow("Held")
        assert await state(cluster, "permit") == ("a", "")
        await cluster.cluster.clock.advance(61)
        assert await state(cluster, "prebind") == ("a", "")

    run_scenario(scenario)


def test_nomination_is_removed_when_the_pod_is_rejected() -> None:
    async def scenario(cluster: RunningScheduler) -> None:
        await cluster.create(cluster.pod("permit"))
        assert await state(cluster, "permit") == ("", "a")
        for waiting in cluster.scheduler.waiting:
            waiting.reject("Held", "no")
        await cluster.settle()
        pod = await cluster.get("permit")
        assert pod is not None
        assert pod.status.nominatedNodeName == ""
        assert (await cluster.condition("permit")).message == "0/1 nodes are available: 1 no."
        assert not cluster.scheduler.table.requested.any()
        assert cluster.scheduler.queue.counts()["unschedulable"] == 1  # its own release does not requeue it

    run_scenario(scenario)


def test_pod_updates_during_the_binding_cycle_are_not_lost() -> None:
    async def scenario(cluster: RunningScheduler) -> None:
        await cluster.create(cluster.pod("permit"))
        await cluster.settle()
        patch = {"metadata": {"labels": {"new": "yes"}}}
        await cluster.cluster.client.for_kind(Pod).patch("permit", patch, NAMESPACE, type=PatchType.MERGE)
        await cluster.settle()
        (waiting,) = cluster.scheduler.waiting
        waiting.reject("Held", "no")
        (queued,) = cluster.scheduler.queue.list_pending_pods()
        await eventually(lambda: queued.info.pod.metadata.labels == {"new": "yes"})
        assert queued.info.group.labels == {"new": "yes"}

    run_scenario(scenario)


def test_plugin_exception_fails_only_the_attempt() -> None:
    async def scenario(cluster: RunningScheduler) -> None:
        await cluster.create(cluster.pod("faulty", cpu="1"))
        await cluster.settle()
        condition = await cluster.condition("faulty")
        assert condition.reason == "SchedulerError"
        failure = r"plugin 'Held' failed in pre_bind \(test_binding_cycle.py:\d+\): KeyError: 'forgotten'"
        assert re.fullmatch(f'running PreBind plugin "Held": {failure}', condition.message)
        assert not cluster.scheduler.table.requested.any()
        await cluster.cluster.client.for_kind(Pod).delete("faulty", NAMESPACE)
        await cluster.create(cluster.pod("other", cpu="1"))
        assert await state(cluster, "other") == ("a", "")

    run_scenario(scenario)


async def check_preemption(cluster: RunningScheduler, name: str) -> None:
    """Check that an unbound pod gives its node to a pod of higher priority, and is not deleted."""
    important = PriorityClass(value=1000)
    important.metadata.name = "high"
    await cluster.cluster.client.for_kind(PriorityClass).create(important)
    victim = await cluster.create(cluster.pod(name, cpu="1"))
    assert await state(cluster, name) == ("", "a")
    preemptor = cluster.pod("preemptor", cpu="1")
    preemptor.spec.priorityClassName = "high"
    pod = await cluster.create(preemptor)
    await cluster.settle()
    (event,) = await cluster.events("Preempted")
    assert event.note == f"Preempted by pod {pod.metadata.uid} on node a (in kube-scheduler memory)."
    await cluster.cluster.clock.advance(10)
    assert await state(cluster, "preemptor") == ("a", "")
    requeued = await cluster.get(name)
    assert requeued is not None
    assert requeued.metadata.uid == victim.metadata.uid
    assert (requeued.spec.nodeName, requeued.status.nominatedNodeName) == ("", "")
    await cluster.cluster.client.for_kind(Node).delete("a")


def test_pod_waiting_at_permit_is_preempted() -> None:
    run_scenario(lambda cluster: check_preemption(cluster, "permit"))


def test_pod_in_pre_bind_is_preempted() -> None:
    run_scenario(lambda cluster: check_preemption(cluster, "prebind"))


def test_nomination_cleared_in_the_status_is_dropped() -> None:
    async def scenario(cluster: RunningScheduler) -> None:
        await cluster.create(cluster.pod("big", cpu="8"))
        await cluster.settle()
        pods = cluster.cluster.client.for_kind(Pod)
        for node, expected in (("a", {"a"}), (None, set())):
            patch = {"status": {"nominatedNodeName": node}}
            await pods.patch("big", patch, NAMESPACE, type=PatchType.MERGE, subresource="status")
            await cluster.settle()
            assert set(cluster.scheduler.nominator.by_node) == expected

    run_scenario(scenario)
