"""The number of volumes of a CSI driver that a node can attach, which may change."""

import asyncio
from pathlib import Path

import pytest

from sampan.api.types.storage_v1 import CSIDriver, CSINode, VolumeAttachment
from sampan.host.clock import VirtualClock
from sampan.kubelet.volumes import LimitExceeded
from sampan.kubelet.volumes.csi.conversions import attachment_name
from sampan.machinery.client import PatchType
from tests.eventually import eventually
from tests.kubelet.volumes.csi_driver import NAME, DirectoryDriver
from tests.kubelet.volumes.csi_objects import CLAIM, csi_volume, driver_object
from tests.kubelet.volumes.volume_manager_node import Scene, needs_root, run_scenario

pytestmark = needs_root


def has_allocatable_count(count: int) -> object:
    def holds(csi_node: CSINode) -> bool:
        limits = [driver.allocatable for driver in csi_node.spec.drivers or ()]
        return [limit.count for limit in limits if limit is not None] == [count]

    return holds


def test_csi_node_allocatable_is_updated_periodically(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        clock, driver = VirtualClock(), DirectoryDriver(tmp_path / "data")
        await driver_object(scene, attachRequired=False, nodeAllocatableUpdatePeriodSeconds=30)
        async with driver.serving(scene.root / "plugins_registry"), scene.running_manager(clock=clock):
            await driver.registered.wait()
            count = len(driver.list_requests("NodeGetInfo"))
            driver.most = 3
            await eventually(lambda: len(driver.list_requests("NodeGetInfo")) > count, step=lambda: clock.advance(5))
            await scene.wait_for_object(CSINode, "n", has_allocatable_count(3))  # type: ignore[arg-type]
            none = {"spec": {"nodeAllocatableUpdatePeriodSeconds": None}}
            await scene.client.for_kind(CSIDriver).patch(NAME, none, type=PatchType.MERGE)

    run_scenario(tmp_path, scenario)


def test_pod_is_rejected_when_the_attachment_limit_is_reached(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        clock, driver = VirtualClock(), DirectoryDriver(tmp_path / "data")
        await driver_object(scene, attachRequired=True, nodeAllocatableUpdatePeriodSeconds=3600)
        await csi_volume(scene)
        pod = await scene.pod(volumes=CLAIM)
        name = attachment_name("handle", NAME, "n")
        spec = {"attacher": NAME, "nodeName": "n", "source": {"persistentVolumeName": "v"}}
        await scene.create(VolumeAttachment, name, "", spec=spec)
        error = {"status": {"attached": False, "attachError": {"message": "full", "errorCode": 8}}}
        await scene.client.for_kind(VolumeAttachment).patch(name, error, type=PatchType.MERGE, subresource="status")
        async with driver.serving(scene.root / "plugins_registry"), scene.running_manager(clock=clock) as manager:
            await driver.registered.wait()
            driver.most = 2
            async with asyncio.TaskGroup() as group:
                task = group.create_task(_limit_error(manager.mount(pod)))
                await eventually(task.done, step=lambda: clock.advance(5))
            start = "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[data]"
            message = "unattached volumes=[data], failed to process volumes=[]: context deadline exceeded"
            assert task.result() == ("VolumeAttachmentLimitExceeded", f"{start}, {message}")
            await scene.wait_for_object(CSINode, "n", has_allocatable_count(2))  # type: ignore[arg-type]
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


async def _limit_error(work: object) -> tuple[str, str]:
    with pytest.raises(LimitExceeded) as failure:
        await work  # type: ignore[misc]
    return failure.value.reason, failure.value.message
