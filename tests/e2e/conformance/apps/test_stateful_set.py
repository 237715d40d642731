"""Conformance tests of sig-apps for StatefulSet. The first paragraph of a docstring is the official test name."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.apps_v1 import StatefulSet
from sampan.api.types.core_v1 import Pod
from sampan.machinery.client import ADDED, DELETED, DeleteParameters, Selection
from tests.e2e.conformance.apps.sets import (
    ALL,
    NEW,
    OLD,
    Sets,
    check_status_endpoints,
    run_scenario,
    stateful_set,
    template,
)

GATED = template(has_gate=True)


@asynccontextmanager
async def order(c: Sets) -> AsyncIterator[list[str]]:
    """Yield a list that records pods as they are created (`+name`) and deleted (`-name`)."""
    names: list[str] = []

    async def write() -> None:
        async with c.client.for_kind(Pod).watch(ALL) as events:
            async for batch in events:
                names.extend(
                    f"{'+' if event.type == ADDED else '-'}{event.key.name}"
                    for event in batch
                    if event.type in (ADDED, DELETED)
                )

    async with asyncio.TaskGroup() as group:
        task = group.create_task(write())
        yield names
        task.cancel()


async def status(c: Sets) -> Any:
    return (await c.get(StatefulSet)).status


def test_scaling_in_order() -> None:
    """[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] Scaling should happen in predictable
    order and halt if any stateful pod is unhealthy [Slow] [Conformance]"""

    async def scenario(c: Sets) -> None:
        async with order(c) as started:
            await c.create(stateful_set(1, pods=GATED))
            await c.be_healthy(True)
            assert (await status(c)).readyReplicas == 1
            await c.be_healthy(False)
            assert (await status(c)).readyReplicas == 0
            await c.patch(StatefulSet, {"replicas": 3})
            assert started == ["+ss-0"], "scaling up halts"
            for _ in range(3):
                await c.be_healthy(True)
            assert (await status(c)).readyReplicas == 3
            assert started == ["+ss-0", "+ss-1", "+ss-2"]
            started.clear()
            await c.be_healthy(False)
            assert (await status(c)).readyReplicas == 0
            await c.patch(StatefulSet, {"replicas": 0})
            assert started == [], "scaling down halts"
            await c.be_healthy(True)
            await c.clock.advance(60)
            assert started == ["-ss-2", "-ss-1", "-ss-0"]
            assert (await status(c)).replicas == 0

    run_scenario(scenario)


def test_burst_scaling() -> None:
    """[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] Burst scaling should run to completion
    even with unhealthy pods [Slow] [Conformance]"""

    async def scenario(c: Sets) -> None:
        await c.create(stateful_set(1, pods=GATED, podManagementPolicy="Parallel"))
        await c.be_healthy(True)
        assert (await status(c)).readyReplicas == 1
        await c.be_healthy(False)
        await c.patch(StatefulSet, {"replicas": 3})
        assert [pod.status.phase for pod in await c.pods()] == ["Running"] * 3
        assert (await status(c)).readyReplicas == 0
        await c.be_healthy(True)
        assert (await status(c)).readyReplicas == 3
        await c.be_healthy(False)
        await c.patch(StatefulSet, {"replicas": 0})
        assert await c.pods() == []
        assert (await status(c)).replicas == 0

    run_scenario(scenario)


def test_recreate_failed_pod() -> None:
    """[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] Should recreate evicted statefulset
    [Conformance]"""

    async def scenario(c: Sets) -> None:
        port = {"hostPort": 21017, "containerPort": 21017, "name": "conflict"}
        container = {"name": "webserver", "image": OLD, "ports": [port]}
        value = {
            "metadata": {"name": "test-pod", "namespace": "default"},
            "spec": {"nodeName": "node-0", "containers": [container]},
        }
        await c.create(codec.from_value(value, Pod))
        async with order(c) as started:
            await c.create(stateful_set(1, pods=template(nodeName="node-0", containers=[container])), 3)
            assert started[:3] == ["+ss-0", "-ss-0", "+ss-0"], "the node rejects the pod, and it is recreated"
            await c.client.for_kind(Pod).delete("test-pod", "default", options=DeleteParameters(grace_period_s=0))
            await c.clock.advance(60)
        (pod,) = await c.pods()
        assert (pod.metadata.name, pod.status.phase) == ("ss-0", "Running")

    run_scenario(scenario)


def test_scale_subresource() -> None:
    """[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should have a working scale subresource
    [Conformance]"""

    async def scenario(c: Sets) -> None:
        await c.create(stateful_set(1))
        sets = c.client.for_kind(StatefulSet)
        scale = await sets.get_subresource("scale", "ss", "default")
        assert (scale.spec.replicas, scale.status.replicas) == (1, 1)
        value = codec.to_value(scale)
        value["spec"]["replicas"], value["metadata"]["resourceVersion"] = 2, ""
        updated = await sets.update_subresource("scale", "ss", codec.from_value(value, type(scale)), "default")
        assert updated.spec.replicas == 2
        assert (await c.get(StatefulSet)).spec.replicas == 2
        await c.patch(StatefulSet, {"replicas": 4})
        assert [pod.metadata.name for pod in await c.pods()] == ["ss-0", "ss-1", "ss-2", "ss-3"]

    run_scenario(scenario)


def test_list_patch_and_delete_collection() -> None:
    """[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should list, patch and delete a
    collection of StatefulSets [Conformance]"""

    async def scenario(c: Sets) -> None:
        await c.create(stateful_set(2))
        sets = c.client.for_kind(StatefulSet)
        everywhere = Selection(labels="app=set")
        assert [stateful_set.metadata.name for stateful_set in (await sets.list(everywhere)).items] == ["ss"]
        patch = {
            "metadata": {"labels": {"test-ss": "patched"}},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "webserver", "image": NEW}]}}},
        }
        patched = await sets.patch("ss", patch, "default")
        assert patched.metadata.labels["test-ss"] == "patched"
        await c.clock.advance(120)
        assert await c.images() == {"ss-0": NEW}
        await sets.delete_collection(Selection(namespace="default", labels="test-ss=patched"))
        await c.clock.advance(60)
        assert (await sets.list(everywhere)).items == []
        assert await c.pods() == []

    run_scenario(scenario)


def test_canary_and_phased_updates() -> None:
    """[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should perform canary updates and
    phased rolling updates of template modifications [Conformance]"""

    async def partition(c: Sets, least: int) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": least}}
        await c.patch(StatefulSet, {"updateStrategy": strategy}, 180)

    async def scenario(c: Sets) -> None:
        await c.create(
            stateful_set(3, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}), 120
        )
        set_status = await status(c)
        assert set_status.currentRevision == set_status.updateRevision
        await c.set_image(StatefulSet, NEW)
        set_status = await status(c)
        current, update = set_status.currentRevision, set_status.updateRevision
        assert current != update
        assert set((await c.images()).values()) == {OLD}, "the partition is above all pods"
        await partition(c, 2)
        assert await c.images() == {"ss-0": OLD, "ss-1": OLD, "ss-2": NEW}, "only the canary is updated"
        assert ((await status(c)).currentReplicas, (await status(c)).updatedReplicas) == (2, 1)
        for name in ("ss-0", "ss-2"):
            await c.delete_pod(name)
        assert await c.images() == {"ss-0": OLD, "ss-1": OLD, "ss-2": NEW}, "each pod is recreated at its revision"
        await partition(c, 1)
        assert await c.images() == {"ss-0": OLD, "ss-1": NEW, "ss-2": NEW}
        await partition(c, 0)
        assert set((await c.images()).values()) == {NEW}
        assert (await status(c)).currentRevision == (await status(c)).updateRevision == update

    run_scenario(scenario)


def test_rolling_updates_and_roll_backs() -> None:
    """[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should perform rolling updates and roll
    backs of template modifications [Conformance]"""

    async def scenario(c: Sets) -> None:
        await c.create(stateful_set(3), 120)
        first = (await status(c)).currentRevision
        async with order(c) as started:
            await c.set_image(StatefulSet, NEW, 300)
            assert started[3:] == ["-ss-2", "+ss-2", "-ss-1", "+ss-1", "-ss-0", "+ss-0"]
        set_status = await status(c)
        assert set_status.currentRevision == set_status.updateRevision != first
        assert {pod.metadata.labels["controller-revision-hash"] for pod in await c.pods()} == {
            set_status.updateRevision
        }
        assert set((await c.images()).values()) == {NEW}
        await c.set_image(StatefulSet, OLD, 300)
        set_status = await status(c)
        assert set_status.currentRevision == set_status.updateRevision == first, "no new revision is made"
        assert [revision.revision for revision in await c.revisions()] == [2, 3]
        assert set((await c.images()).values()) == {OLD}

    run_scenario(scenario)


def test_status() -> None:
    """[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should validate Statefulset Status
    endpoints [Conformance]"""

    async def scenario(c: Sets) -> None:
        await c.create(stateful_set(1))
        await check_status_endpoints(c, StatefulSet)

    run_scenario(scenario)
