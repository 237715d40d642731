"""Pods on a real node whose volume sources do not exist yet."""

import asyncio

import pytest

from sampan.api.types.core_v1 import Event, Pod
from sampan.machinery.client import DeleteParameters, Selection
from sampan.runtimes import kernel
from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import COMPONENTS, RealNode, missing_requirement, run_scenario


async def event_message(node: RealNode, reason: str) -> str:
    """Return the message of the first event with this reason."""
    selection = Selection(namespace=node.namespace, fields=f"reason={reason}")
    async with asyncio.timeout(60), node.client.for_kind(Event).watch(selection) as events:
        async for batch in events:
            for event in batch:
                if event.type == "ADDED":
                    return str(event.object.message)
    raise AssertionError("the watch has ended")


async def waiting_reason(node: RealNode, name: str) -> str:
    """Return the reason for which the container of the pod waits."""
    selection = Selection(namespace=node.namespace, fields=f"metadata.name={name}")
    async with asyncio.timeout(60), node.client.for_kind(Pod).watch(selection) as events:
        async for batch in events:
            for pod in (event.object for event in batch if event.type in ("ADDED", "MODIFIED")):
                for status in pod.status.containerStatuses:
                    return str(status.state.waiting.reason)
    raise AssertionError("the watch has ended")


async def check_config_map_created_later(node: RealNode) -> None:
    name = await node.start("cat /v/a", {"name": "v", "configMap": {"name": "later"}})
    text = 'MountVolume.SetUp failed for volume "v" : configmap "later" not found'
    assert await event_message(node, "FailedMount") == text
    assert await waiting_reason(node, name) == "ContainerCreating"
    await node.config_map("later", data={"a": "here"})
    assert node.output_of(await node.wait_until_succeeded(name)) == "here"


async def check_deletion_of_a_waiting_pod(node: RealNode) -> None:
    """A pod that waits for a missing secret can be deleted."""
    name = await node.start("true", {"name": "v", "secret": {"secretName": "never"}})
    assert (
        await event_message(node, "FailedMount") == 'MountVolume.SetUp failed for volume "v" : secret "never" not found'
    )
    async with asyncio.timeout(60):
        selection = Selection(namespace=node.namespace, fields=f"metadata.name={name}")
        async with node.client.for_kind(Pod).watch(selection) as events:
            await node.client.for_kind(Pod).delete(name, node.namespace, options=DeleteParameters(grace_period_s=1))
            async for batch in events:
                if any(event.type == "DELETED" for event in batch):
                    return


async def check_missing_claim(node: RealNode) -> None:
    await node.start("true", {"name": "v", "persistentVolumeClaim": {"claimName": "none"}})
    parts = "unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]"
    why = "failed to fetch PVC from API server: "
    text = f"Unable to attach or mount volumes: {parts}: error processing PVC {node.namespace}/none: {why}"
    assert (await event_message(node, "FailedMount")).startswith(text)


async def test_pods_with_missing_volume_sources_wait_and_can_be_deleted() -> None:
    if reason := missing_requirement():
        pytest.skip(reason)

    async with asyncio.timeout(120), Cluster(nodes=1, runtime="oci", components=COMPONENTS) as cluster:
        home = cluster.kubeconfig.parent
        async with asyncio.TaskGroup() as group:
            for number, scenario in enumerate(
                (check_config_map_created_later, check_deletion_of_a_waiting_pod, check_missing_claim)
            ):
                group.create_task(run_scenario(cluster, f"test-{number}", scenario))
    assert kernel.mounts_below(home) == []
