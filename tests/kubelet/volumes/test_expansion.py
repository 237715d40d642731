"""Expansion of volumes by a CSI driver."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from sampan.kubelet.volumes import VolumeManager
from sampan.kubelet.volumes.mounter import build_expansion_command
from sampan.machinery.client import PatchType
from sampan.machinery.copies import copy_of
from tests.eventually import eventually
from tests.kubelet.volumes.csi_driver import GrowingDriver
from tests.kubelet.volumes.csi_objects import CLAIM, csi_volume, driver_object
from tests.kubelet.volumes.volume_manager_node import Scene, needs_root, run_scenario

LARGE = 4 << 20
PENDING = {"storage": "NodeResizePending"}


async def enlarge(scene: Scene, size: str = "4Mi", status: dict[str, Any] | None = None) -> None:
    """Expand the volume and update the claim's status, as the driver's resizer does."""
    capacity = {"spec": {"capacity": {"storage": size}}}
    await scene.client.for_kind(PersistentVolume).patch("v", capacity, type=PatchType.MERGE)
    pending = {"type": "FileSystemResizePending", "status": "True"}
    resize = {"allocatedResources": {"storage": size}, "allocatedResourceStatuses": PENDING, "conditions": [pending]}
    await patch_claim_status(scene, resize if status is None else status)


async def patch_claim_status(scene: Scene, status: dict[str, Any]) -> None:
    await scene.client.for_kind(PersistentVolumeClaim).patch(
        "c", {"status": status}, "default", type=PatchType.MERGE, subresource="status"
    )


async def claim(scene: Scene) -> PersistentVolumeClaim:
    return await scene.client.for_kind(PersistentVolumeClaim).get("c", "default")


async def claim_and_pod(scene: Scene, *, size: str = "1Mi", modes: tuple[str, ...] = ("ReadWriteOnce",)) -> Pod:
    await driver_object(scene, attachRequired=False)
    await csi_volume(scene, pv={"capacity": {"storage": size}, "accessModes": list(modes)})
    await patch_claim_status(scene, {"capacity": {"storage": size}})
    return await scene.pod(volumes=CLAIM)


def changed_pod(pod: Pod, number: int = 1) -> Pod:
    """Return the pod with a change, which makes the manager check its claims."""
    changed = copy_of(pod)
    changed.metadata.annotations = {"touched": str(number)}
    return changed


async def check_claims(scene: Scene, manager: VolumeManager, pod: Pod) -> None:
    """Make the manager check the claims of the pod, and wait until it has done so. The manager checks claims one after
    the other: when it reads the claim for another check, the check before is over.
    """
    resource, user, negligible_s = "persistentvolumeclaims", "system:node:n", 0.001
    with scene.cluster.fault(verb="get", resource=resource, user=user, latency_s=negligible_s) as reads:
        manager.update_pod(changed_pod(pod, 1))
        await eventually(lambda: reads.hits >= 1)
        manager.update_pod(changed_pod(pod, 2))
        await eventually(lambda: reads.hits >= 2)


def scenario_test(
    work: Callable[[Scene, GrowingDriver, VolumeManager, Pod], Any], **options: Any
) -> Callable[[Path], None]:
    def test(tmp_path: Path) -> None:
        async def scenario(scene: Scene) -> None:
            driver, pod = GrowingDriver(tmp_path / "data"), await claim_and_pod(scene, **options)
            async with driver.serving(scene.root / "plugins_registry"), scene.running_manager() as manager:
                await driver.registered.wait()
                await work(scene, driver, manager, pod)
                driver.claim_errors = {}
                await manager.unmount(pod)

        run_scenario(tmp_path, scenario)

    return needs_root(test)


async def volume_is_expanded_while_a_pod_uses_it(
    scene: Scene, driver: GrowingDriver, manager: VolumeManager, pod: Pod
) -> None:
    await manager.mount(pod)
    [usage] = await manager.usage(pod)
    assert (usage.capacity_bytes, usage.claim) == (1 << 20, "c")
    await enlarge(scene)
    manager.update_pod(changed_pod(pod))
    await scene.wait_for_object(PersistentVolumeClaim, "c", lambda claim: claim.status.capacity == {"storage": "4Mi"})
    resized = await claim(scene)
    assert (resized.status.conditions, resized.status.allocatedResourceStatuses) == ([], {})
    [request] = driver.list_requests("NodeExpandVolume")
    path = scene.directory(pod, "csi", "v") / "mount"
    assert (request.volume_path, request.capacity_range.required_bytes) == (str(path), LARGE)
    assert request.staging_target_path.endswith("globalmount")
    [usage] = await manager.usage(pod)
    assert usage.capacity_bytes == LARGE
    assert len(driver.list_requests("NodeGetVolumeStats")) == 2
    text = 'MountVolume.NodeExpandVolume succeeded for volume "v" n'
    assert scene.resize_events == [(name, "Normal", "FileSystemResizeSuccessful", text) for name in ("p", "c")]
    assert len(driver.list_requests("NodeStageVolume")) == len(driver.list_requests("NodePublishVolume")) == 1


test_volume_is_expanded_while_a_pod_uses_it = scenario_test(volume_is_expanded_while_a_pod_uses_it)


async def volume_is_expanded_when_it_is_mounted(
    scene: Scene, driver: GrowingDriver, manager: VolumeManager, pod: Pod
) -> None:
    await enlarge(scene)
    await manager.mount(pod)
    assert [request.capacity_range.required_bytes for request in driver.list_requests("NodeExpandVolume")] == [LARGE]
    assert (await claim(scene)).status.capacity == {"storage": "4Mi"}


test_volume_is_expanded_when_it_is_mounted = scenario_test(volume_is_expanded_when_it_is_mounted)


async def resize_pending_condition_alone_causes_expansion(
    scene: Scene, driver: GrowingDriver, manager: VolumeManager, pod: Pod
) -> None:
    await enlarge(scene, status={"conditions": [{"type": "FileSystemResizePending", "status": "True"}]})
    await manager.mount(pod)
    resized = await claim(scene)
    assert (resized.status.capacity, resized.status.conditions) == ({"storage": "4Mi"}, [])


test_resize_pending_condition_alone_causes_expansion = scenario_test(resize_pending_condition_alone_causes_expansion)


async def volume_is_not_expanded_before_the_controller_resize_ends(
    scene: Scene, driver: GrowingDriver, manager: VolumeManager, pod: Pod
) -> None:
    status = {"storage": "ControllerResizeInProgress"}
    await enlarge(scene, status={"allocatedResources": {"storage": "4Mi"}, "allocatedResourceStatuses": status})
    await manager.mount(pod)
    assert driver.list_requests("NodeExpandVolume") == []
    assert (await claim(scene)).status.capacity == {"storage": "1Mi"}


test_volume_is_not_expanded_before_the_controller_resize_ends = scenario_test(
    volume_is_not_expanded_before_the_controller_resize_ends
)


async def infeasible_expansion_is_reported_in_the_claim(
    scene: Scene, driver: GrowingDriver, manager: VolumeManager, pod: Pod
) -> None:
    """The kubelet gives up an infeasible size, so that another size can be requested."""
    await manager.mount(pod)
    driver.claim_errors, driver.code = {"NodeExpandVolume": "too much"}, "OUT_OF_RANGE"
    await enlarge(scene)
    manager.update_pod(changed_pod(pod))
    infeasible = {"storage": "NodeResizeInfeasible"}
    await scene.wait_for_object(
        PersistentVolumeClaim, "c", lambda claim: claim.status.allocatedResourceStatuses == infeasible
    )
    error = "Expander.NodeExpand failed to expand the volume rpc error: code = OutOfRange desc = too much"
    conditions = {condition.type: condition.message for condition in (await claim(scene)).status.conditions}
    assert conditions["NodeResizeError"] == f"failed to expand pvc with {error}"
    await eventually(lambda: bool(scene.resize_events))
    text = f'NodeExpandVolume.NodeExpandVolume failed for volume "v" : {error}'
    assert scene.resize_events == [("p", "Warning", "VolumeResizeFailed", text)]


test_infeasible_expansion_is_reported_in_the_claim = scenario_test(infeasible_expansion_is_reported_in_the_claim)


async def expansion_refused_while_in_use_is_retried_at_the_next_mount(
    scene: Scene, driver: GrowingDriver, manager: VolumeManager, pod: Pod
) -> None:
    """After FailedPrecondition, the expansion is tried again only when the volume is mounted again."""
    await manager.mount(pod)
    driver.claim_errors, driver.code = {"NodeExpandVolume": "in use"}, "FAILED_PRECONDITION"
    await enlarge(scene)
    manager.update_pod(changed_pod(pod))
    await scene.wait_for_object(PersistentVolumeClaim, "c", _has_error)
    await check_claims(scene, manager, pod)
    assert len(driver.list_requests("NodeExpandVolume")) == 1
    await manager.unmount(pod)
    driver.claim_errors = {}
    await manager.mount(pod)
    resized = await claim(scene)
    assert (resized.status.capacity, resized.status.conditions) == ({"storage": "4Mi"}, [])


def _has_error(claim: PersistentVolumeClaim) -> bool:
    return any(condition.type == "NodeResizeError" for condition in claim.status.conditions)


test_expansion_refused_while_in_use_is_retried_at_the_next_mount = scenario_test(
    expansion_refused_while_in_use_is_retried_at_the_next_mount
)


async def failed_expansion_delays_the_mount(
    scene: Scene, driver: GrowingDriver, manager: VolumeManager, pod: Pod
) -> None:
    driver.claim_errors = {"NodeExpandVolume": "not now"}
    await enlarge(scene)
    manager.update_pod(pod)
    start = 'MountVolume.Setup failed while expanding volume for volume "v" : Expander.NodeExpand failed to expand the'
    assert await scene.wait_for_warning() == f"{start} volume : rpc error: code = Internal desc = not now"
    driver.claim_errors = {}
    await manager.mount(pod)
    assert (await claim(scene)).status.capacity == {"storage": "4Mi"}


test_failed_expansion_delays_the_mount = scenario_test(failed_expansion_delays_the_mount)


async def shared_volume_that_another_node_expanded_is_expanded_once(
    scene: Scene, driver: GrowingDriver, manager: VolumeManager, pod: Pod
) -> None:
    """The claim of a ReadWriteMany volume has the new size as soon as the first node has expanded it."""
    await manager.mount(pod)
    await enlarge(scene, status={"capacity": {"storage": "4Mi"}, "allocatedResources": {"storage": "4Mi"}})
    await check_claims(scene, manager, pod)
    await check_claims(scene, manager, pod)
    assert [request.capacity_range.required_bytes for request in driver.list_requests("NodeExpandVolume")] == [LARGE]


test_shared_volume_that_another_node_expanded_is_expanded_once = scenario_test(
    shared_volume_that_another_node_expanded_is_expanded_once, modes=("ReadWriteMany",)
)


@needs_root
def test_driver_without_expand_capability_is_not_called(tmp_path: Path) -> None:
    """Another node may have expanded a ReadWriteMany volume, or no node has to."""

    async def scenario(scene: Scene) -> None:
        driver, pod = (
            GrowingDriver(tmp_path / "data", abilities=(1,)),
            await claim_and_pod(scene, modes=("ReadWriteMany",)),
        )
        async with driver.serving(scene.root / "plugins_registry"), scene.running_manager() as manager:
            await driver.registered.wait()
            await manager.mount(pod)
            await enlarge(scene, status={"capacity": {"storage": "4Mi"}, "allocatedResources": {"storage": "4Mi"}})
            await check_claims(scene, manager, pod)
            assert driver.list_requests("NodeExpandVolume") == []
            await manager.unmount(pod)
            assert scene.resize_events == []

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("ext4", ["resize2fs", "/dev/x"]),
        ("xfs", ["xfs_growfs", "-d", "/m"]),
        ("btrfs", ["btrfs", "filesystem", "resize", "max", "/m"]),
        ("vfat", []),
    ],
)
def test_file_system_expansion_commands(kind: str, command: list[str]) -> None:
    assert build_expansion_command("/dev/x", kind, Path("/m")) == command
