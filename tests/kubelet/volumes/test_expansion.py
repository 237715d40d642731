"""Volumes that become larger, of a CSI driver that makes them so."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from sampan.kubelet.volumes import VolumeManager
from sampan.kubelet.volumes.mounter import growing
from sampan.machinery.client import PatchType
from sampan.machinery.copies import copy_of
from tests.eventually import eventually
from tests.kubelet.volumes.csi_driver import GrowingDriver
from tests.kubelet.volumes.csi_objects import CLAIM, csi_volume, driver_object
from tests.kubelet.volumes.volume_manager_node import Scene, needs_root, play

LARGE = 4 << 20
PENDING = {"storage": "NodeResizePending"}


async def enlarge(scene: Scene, size: str = "4Mi", status: dict[str, Any] | None = None) -> None:
    """What the driver's resizer does: the volume itself, and what the claim says of it."""
    capacity = {"spec": {"capacity": {"storage": size}}}
    await scene.client.of(PersistentVolume).patch("v", capacity, type=PatchType.MERGE)
    pending = {"type": "FileSystemResizePending", "status": "True"}
    resize = {"allocatedResources": {"storage": size}, "allocatedResourceStatuses": PENDING, "conditions": [pending]}
    await say(scene, resize if status is None else status)


async def say(scene: Scene, status: dict[str, Any]) -> None:
    await scene.client.of(PersistentVolumeClaim).patch(
        "c", {"status": status}, "default", type=PatchType.MERGE, subresource="status"
    )


async def claim(scene: Scene) -> PersistentVolumeClaim:
    return await scene.client.of(PersistentVolumeClaim).get("c", "default")


async def claim_and_pod(scene: Scene, *, size: str = "1Mi", modes: tuple[str, ...] = ("ReadWriteOnce",)) -> Pod:
    await driver_object(scene, attachRequired=False)
    await csi_volume(scene, pv={"capacity": {"storage": size}, "accessModes": list(modes)})
    await say(scene, {"capacity": {"storage": size}})
    return await scene.pod(volumes=CLAIM)


def touched(pod: Pod, number: int = 1) -> Pod:
    """Somebody has changed it: its claims are looked at."""
    changed = copy_of(pod)
    changed.metadata.annotations = {"touched": str(number)}
    return changed


def scenario_of(
    work: Callable[[Scene, GrowingDriver, VolumeManager, Pod], Any], **options: Any
) -> Callable[[Path], None]:
    def test(tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            driver, pod = GrowingDriver(tmp_path / "data"), await claim_and_pod(scene, **options)
            async with driver.serving(scene.root / "plugins_registry"), scene.managing() as manager:
                await driver.registered.wait()
                await work(scene, driver, manager, pod)
                driver.claim_errors = {}
                await manager.unmount(pod)

        play(tmp_path, scenario)

    return needs_root(test)


async def while_it_is_used(scene: Scene, driver: GrowingDriver, manager: VolumeManager, pod: Pod) -> None:
    await manager.mount(pod)
    [usage] = await manager.usage(pod)
    assert (usage.capacity_bytes, usage.claim) == (1 << 20, "c")
    await enlarge(scene)
    manager.update_pod(touched(pod))
    await scene.wait_for_object(PersistentVolumeClaim, "c", lambda claim: claim.status.capacity == {"storage": "4Mi"})
    resized = await claim(scene)
    assert (resized.status.conditions, resized.status.allocatedResourceStatuses) == ([], {})
    [request] = driver.of("NodeExpandVolume")
    path = scene.directory(pod, "csi", "v") / "mount"
    assert (request.volume_path, request.capacity_range.required_bytes) == (str(path), LARGE)
    assert request.staging_target_path.endswith("globalmount")
    [usage] = await manager.usage(pod)
    assert usage.capacity_bytes == LARGE
    assert len(driver.of("NodeGetVolumeStats")) == 2
    text = 'MountVolume.NodeExpandVolume succeeded for volume "v" n'
    assert scene.resize_events == [(name, "Normal", "FileSystemResizeSuccessful", text) for name in ("p", "c")]
    assert len(driver.of("NodeStageVolume")) == len(driver.of("NodePublishVolume")) == 1


test_while_it_is_used = scenario_of(while_it_is_used)


async def before_it_is_used(scene: Scene, driver: GrowingDriver, manager: VolumeManager, pod: Pod) -> None:
    await enlarge(scene)
    await manager.mount(pod)
    assert [request.capacity_range.required_bytes for request in driver.of("NodeExpandVolume")] == [LARGE]
    assert (await claim(scene)).status.capacity == {"storage": "4Mi"}


test_before_it_is_used = scenario_of(before_it_is_used)


async def with_a_resizer_of_old(scene: Scene, driver: GrowingDriver, manager: VolumeManager, pod: Pod) -> None:
    await enlarge(scene, status={"conditions": [{"type": "FileSystemResizePending", "status": "True"}]})
    await manager.mount(pod)
    resized = await claim(scene)
    assert (resized.status.capacity, resized.status.conditions) == ({"storage": "4Mi"}, [])


test_with_a_resizer_of_old = scenario_of(with_a_resizer_of_old)


async def not_yet_the_nodes_turn(scene: Scene, driver: GrowingDriver, manager: VolumeManager, pod: Pod) -> None:
    status = {"storage": "ControllerResizeInProgress"}
    await enlarge(scene, status={"allocatedResources": {"storage": "4Mi"}, "allocatedResourceStatuses": status})
    await manager.mount(pod)
    assert driver.of("NodeExpandVolume") == []
    assert (await claim(scene)).status.capacity == {"storage": "1Mi"}


test_not_yet_the_nodes_turn = scenario_of(not_yet_the_nodes_turn)


async def never(scene: Scene, driver: GrowingDriver, manager: VolumeManager, pod: Pod) -> None:
    """A size that will never be is given up, so that another can be asked for."""
    await manager.mount(pod)
    driver.claim_errors, driver.code = {"NodeExpandVolume": "too much"}, "OUT_OF_RANGE"
    await enlarge(scene)
    manager.update_pod(touched(pod))
    infeasible = {"storage": "NodeResizeInfeasible"}
    await scene.wait_for_object(
        PersistentVolumeClaim, "c", lambda claim: claim.status.allocatedResourceStatuses == infeasible
    )
    why = "Expander.NodeExpand failed to expand the volume rpc error: code = OutOfRange desc = too much"
    conditions = {condition.type: condition.message for condition in (await claim(scene)).status.conditions}
    assert conditions["NodeResizeError"] == f"failed to expand pvc with {why}"
    await eventually(lambda: bool(scene.resize_events))
    text = f'NodeExpandVolume.NodeExpandVolume failed for volume "v" : {why}'
    assert scene.resize_events == [("p", "Warning", "VolumeResizeFailed", text)]


test_never = scenario_of(never)


async def not_while_it_is_used(scene: Scene, driver: GrowingDriver, manager: VolumeManager, pod: Pod) -> None:
    """Once it is told, this is not tried again until the volume is mounted anew; and nobody has to wait for it."""
    await manager.mount(pod)
    driver.claim_errors, driver.code = {"NodeExpandVolume": "in use"}, "FAILED_PRECONDITION"
    await enlarge(scene)
    for number in (1, 2):
        manager.update_pod(touched(pod, number))
        await scene.wait_for_object(PersistentVolumeClaim, "c", _has_error)
    await manager.unmount(pod)
    assert len(driver.of("NodeExpandVolume")) == 1
    driver.claim_errors = {}
    await manager.mount(pod)
    resized = await claim(scene)
    assert (resized.status.capacity, resized.status.conditions) == ({"storage": "4Mi"}, [])


def _has_error(claim: PersistentVolumeClaim) -> bool:
    return any(condition.type == "NodeResizeError" for condition in claim.status.conditions)


test_not_while_it_is_used = scenario_of(not_while_it_is_used)


async def trouble_keeps_a_pod_waiting(scene: Scene, driver: GrowingDriver, manager: VolumeManager, pod: Pod) -> None:
    driver.claim_errors = {"NodeExpandVolume": "not now"}
    await enlarge(scene)
    manager.update_pod(pod)
    start = 'MountVolume.Setup failed while expanding volume for volume "v" : Expander.NodeExpand failed to expand the'
    assert await scene.warned() == f"{start} volume : rpc error: code = Internal desc = not now"
    driver.claim_errors = {}
    await manager.mount(pod)
    assert (await claim(scene)).status.capacity == {"storage": "4Mi"}


test_trouble_keeps_a_pod_waiting = scenario_of(trouble_keeps_a_pod_waiting)


@needs_root
def test_a_driver_that_cannot(tmp_path: Path) -> None:
    """On a volume of many nodes another may have done it, or nothing had to be done on nodes at all."""

    async def scenario(scene: Scene) -> None:
        driver, pod = (
            GrowingDriver(tmp_path / "data", abilities=(1,)),
            await claim_and_pod(scene, modes=("ReadWriteMany",)),
        )
        async with driver.serving(scene.root / "plugins_registry"), scene.managing() as manager:
            await driver.registered.wait()
            await manager.mount(pod)
            await enlarge(scene, status={"capacity": {"storage": "4Mi"}, "allocatedResources": {"storage": "4Mi"}})
            manager.update_pod(touched(pod))
            await eventually(lambda: driver.calls[-1][0] != "NodeExpandVolume")
            await manager.unmount(pod)
            assert driver.of("NodeExpandVolume") == []
            assert scene.resize_events == []

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("ext4", ["resize2fs", "/dev/x"]),
        ("xfs", ["xfs_growfs", "-d", "/m"]),
        ("btrfs", ["btrfs", "filesystem", "resize", "max", "/m"]),
        ("vfat", []),
    ],
)
def test_tools(kind: str, command: list[str]) -> None:
    assert growing("/dev/x", kind, Path("/m")) == command
