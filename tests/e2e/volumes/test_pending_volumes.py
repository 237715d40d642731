"""Pods on a real node that wait for what they mount."""

import asyncio

import pytest

from sampan.api.types.core_v1 import Event, Pod
from sampan.machinery.client import Delete, Selection
from sampan.runtimes import kernel
from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import COMPONENTS, RealNode, play, why_not


async def event_message(node: RealNode, reason: str) -> str:
    """The first event of that reason."""
    selection = Selection(namespace=node.namespace, fields=f"reason={reason}")
    async with asyncio.timeout(60), node.client.of(Event).watch(selection) as events:
        async for batch in events:
            for event in batch:
                if event.type == "ADDED":
                    return str(event.object.message)
    raise AssertionError("the watch has ended")


async def waits(node: RealNode, name: str) -> str:
    """Why the pod's container does."""
    selection = Selection(namespace=node.namespace, fields=f"metadata.name={name}")
    async with asyncio.timeout(60), node.client.of(Pod).watch(selection) as events:
        async for batch in events:
            for pod in (event.object for event in batch if event.type in ("ADDED", "MODIFIED")):
                for status in pod.status.containerStatuses:
                    return str(status.state.waiting.reason)
    raise AssertionError("the watch has ended")


async def comes_later(node: RealNode) -> None:
    name = await node.start("cat /v/a", {"name": "v", "configMap": {"name": "later"}})
    text = 'MountVolume.SetUp failed for volume "v" : configmap "later" not found'
    assert await event_message(node, "FailedMount") == text
    assert await waits(node, name) == "ContainerCreating"
    await node.config_map("later", data={"a": "here"})
    assert node.output_of(await node.ended(name)) == "here"


async def never_comes(node: RealNode) -> None:
    """Who waits can be deleted."""
    name = await node.start("true", {"name": "v", "secret": {"secretName": "never"}})
    assert (
        await event_message(node, "FailedMount") == 'MountVolume.SetUp failed for volume "v" : secret "never" not found'
    )
    async with asyncio.timeout(60):
        selection = Selection(namespace=node.namespace, fields=f"metadata.name={name}")
        async with node.client.of(Pod).watch(selection) as events:
            await node.client.of(Pod).delete(name, node.namespace, options=Delete(grace_period_s=1))
            async for batch in events:
                if any(event.type == "DELETED" for event in batch):
                    return


async def claim_is_missing(node: RealNode) -> None:
    await node.start("true", {"name": "v", "persistentVolumeClaim": {"claimName": "none"}})
    parts = "unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]"
    why = "failed to fetch PVC from API server: "
    text = f"Unable to attach or mount volumes: {parts}: error processing PVC {node.namespace}/none: {why}"
    assert (await event_message(node, "FailedMount")).startswith(text)


async def test_waiting() -> None:
    if reason := why_not():
        pytest.skip(reason)

    async with asyncio.timeout(120), Cluster(nodes=1, runtime="oci", components=COMPONENTS) as cluster:
        home = cluster.kubeconfig.parent
        async with asyncio.TaskGroup() as group:
            for number, scenario in enumerate((comes_later, never_comes, claim_is_missing)):
                group.create_task(play(cluster, f"test-{number}", scenario))
    assert kernel.mounts_below(home) == []
