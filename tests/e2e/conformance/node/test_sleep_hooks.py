"""Tests of sig-node for lifecycle hooks that sleep, which are not among the conformance tests; the times are
shorter than there."""

from typing import Any

from sampan.api.types.core_v1 import Event, Pod
from sampan.api.values import times
from sampan.machinery.client import PatchType, Selection
from tests.e2e.conformance.node.pods import (
    container,
    container_status,
    create_pod,
    delete,
    wait_until_gone,
    wait_until_ready,
)
from tests.e2e.conformance.storage.real_node import RealNode, concurrent_scenario

STOPS_AT_ONCE = "trap 'exit 0' TERM; sleep 1000 & wait"
FINALIZER = "test/finalizer"


def sleep_hook(seconds: int, hook: str = "preStop") -> dict[str, Any]:
    return {"lifecycle": {hook: {"sleep": {"seconds": seconds}}}}


async def measure_stop(node: RealNode, *, sleep_s: int, grace_s: int, deleted_with_s: int | None = None) -> float:
    """Delete a pod with a preStop hook that sleeps, and return the seconds until its container has terminated. A
    finalizer keeps the pod, so that its last status can be read."""
    await create_pod(
        node,
        container(script=STOPS_AT_ONCE, **sleep_hook(sleep_s)),
        meta={"finalizers": [FINALIZER]},
        terminationGracePeriodSeconds=grace_s,
    )
    await wait_until_ready(node)
    await delete(node, grace_s=deleted_with_s)
    pod = await node.wait_for("p", lambda pod: container_status(pod).state.terminated is not None)
    deadline = pod.metadata.deletionTimestamp
    terminated = container_status(pod).state.terminated
    assert deadline is not None
    assert terminated is not None
    assert terminated.finishedAt is not None
    await node.client.for_kind(Pod).patch("p", {"metadata": {"finalizers": None}}, node.namespace, type=PatchType.MERGE)
    await wait_until_gone(node)
    grace = deleted_with_s if deleted_with_s is not None else grace_s
    return times.parse_time(terminated.finishedAt) - times.parse_time(deadline) + grace


@concurrent_scenario
async def test_pre_stop_sleep(node: RealNode) -> None:
    """Lifecycle Sleep Hook when create a pod with lifecycle hook using sleep action valid prestop hook using
    sleep action [NodeConformance]"""
    assert 4 <= await measure_stop(node, sleep_s=5, grace_s=40) < 40


@concurrent_scenario
async def test_pre_stop_sleep_with_a_shorter_grace_period(node: RealNode) -> None:
    """Lifecycle Sleep Hook when create a pod with lifecycle hook using sleep action reduce
    GracePeriodSeconds during runtime [NodeConformance]"""
    assert 3 <= await measure_stop(node, sleep_s=50, grace_s=100, deleted_with_s=4) < 50


@concurrent_scenario
async def test_pre_stop_sleep_of_a_container_that_has_terminated(node: RealNode) -> None:
    """Lifecycle Sleep Hook when create a pod with lifecycle hook using sleep action ignore terminated
    container [NodeConformance]"""
    await create_pod(
        node, container(script="sleep 1", **sleep_hook(60)), restartPolicy="Never", terminationGracePeriodSeconds=100
    )
    pod = await node.wait_until_succeeded("p")
    terminated = container_status(pod).state.terminated
    assert terminated is not None
    assert times.parse_time(terminated.finishedAt or "") - times.parse_time(terminated.startedAt or "") < 60
    await delete(node)
    await wait_until_gone(node)


@concurrent_scenario
async def test_container_that_exits_during_its_pre_stop_sleep(node: RealNode) -> None:
    """The pod does not wait for the rest of the sleep."""
    await create_pod(
        node, container(script="sleep 3", **sleep_hook(600)), restartPolicy="Never", terminationGracePeriodSeconds=1000
    )
    await wait_until_ready(node)
    await delete(node)
    await wait_until_gone(node)


@concurrent_scenario
async def test_pre_stop_sleep_of_zero_seconds(node: RealNode) -> None:
    """Lifecycle sleep action zero value when create a pod with lifecycle hook using sleep action with a
    duration of zero seconds prestop hook using sleep action with zero duration [NodeConformance]"""
    assert await measure_stop(node, sleep_s=0, grace_s=30) < 30


@concurrent_scenario
async def test_post_start_sleep(node: RealNode) -> None:
    """The container counts as running after its postStart hook, also one that lasts longer than the five seconds after
    which the kubelet publishes the progress of a pull."""
    for name, seconds in (("p", 7), ("zero", 0)):
        hooked = container(script=STOPS_AT_ONCE, **sleep_hook(seconds, "postStart"))
        await create_pod(node, hooked, name=name, terminationGracePeriodSeconds=30)
    pod, zero = await wait_until_ready(node), await wait_until_ready(node, "zero")
    for ready, min_s in ((pod, 6), (zero, 0)):
        running = container_status(ready).state.running
        assert running is not None
        since = next(value.lastTransitionTime for value in ready.status.conditions if value.type == "Ready")
        assert times.parse_time(since or "") - times.parse_time(running.startedAt or "") >= min_s


@concurrent_scenario
async def test_deletion_does_not_wait_for_a_post_start_sleep(node: RealNode) -> None:
    hooked = container(script=STOPS_AT_ONCE, **sleep_hook(600, "postStart"))
    await create_pod(node, hooked, terminationGracePeriodSeconds=1000)
    async with node.client.for_kind(Event).watch(Selection(namespace=node.namespace)) as batches:
        async for batch in batches:
            if any(event.object.reason == "Started" for event in batch):
                break
    await delete(node)
    await wait_until_gone(node)
