"""Volumes of the plugins for hostPath, local, NFS and iSCSI, and of types without a plugin."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from sampan.api.types.core_v1 import Node, PersistentVolume, PersistentVolumeClaim
from sampan.kubelet.volumes.mounter import run_program
from sampan.machinery.client import PatchType
from sampan.machinery.copies import copy_of
from sampan.runtimes import kernel
from tests.kubelet.volumes.volume_manager_node import CLAIM_VOLUME, Scene, needs_root, run_scenario

_CAP_SYS_RESOURCE = 24


def node_affinity(label: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [label]}]}
    return {"required": {"nodeSelectorTerms": [term]}}


def test_a_persistent_host_path_is_mounted_and_stays(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create_bound_claim(hostPath={"path": str(tmp_path / "here"), "type": "DirectoryOrCreate"})
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}}
        pod = await scene.pod(volumes=[claim])
        async with scene.running_manager() as manager:
            await manager.mount(pod)
            [mount] = manager.mounts(pod, (pod.spec.containers or [])[0])
            assert (mount.source, mount.is_read_only) == (tmp_path / "here", True)
            await manager.unmount(pod)
            assert (tmp_path / "here").is_dir()

    run_scenario(tmp_path, scenario)


@needs_root
def test_a_local_directory_is_mounted_with_the_group_of_the_pod(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        (tmp_path / "disk").mkdir()
        patch = {"metadata": {"labels": {"kubernetes.io/hostname": "n"}}}
        await scene.client.for_kind(Node).patch("n", patch, type=PatchType.MERGE)
        await scene.create_bound_claim(local={"path": str(tmp_path / "disk")}, nodeAffinity=node_affinity("n"))
        pod = await scene.pod(volumes=[CLAIM_VOLUME], securityContext={"fsGroup": 99})
        async with scene.running_manager() as manager:
            await manager.mount(pod)
            directory = scene.directory(pod, "local-volume", "v")
            (directory / "file").write_text("kept")
            assert directory.stat().st_gid == 99
            await manager.unmount(pod)
        assert (tmp_path / "disk/file").read_text() == "kept"

    run_scenario(tmp_path, scenario)


@needs_root
def test_a_local_volume_of_another_node_is_refused(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create_bound_claim(local={"path": str(tmp_path)}, nodeAffinity=node_affinity("elsewhere"))
        pod = await scene.pod(volumes=[CLAIM_VOLUME])
        async with scene.running_manager() as manager, asyncio.TaskGroup() as group:
            task = group.create_task(manager.mount(pod))
            message = 'MountVolume.NodeAffinity check failed for volume "v" : no matching NodeSelectorTerms'
            assert await scene.wait_for_warning() == message
            task.cancel()
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


@pytest.fixture
def disk(tmp_path: Path) -> Any:
    """A loop device of 16 MB."""
    file = tmp_path / "image"
    with file.open("wb") as image:
        image.truncate(16 << 20)
    try:
        name = asyncio.run(run_program("losetup", "--show", "-f", str(file)))
    except Exception as fault:
        pytest.skip(f"there are no loop devices here: {fault}")
    yield Path(name)
    asyncio.run(run_program("losetup", "-d", name))


@needs_root
def test_a_local_disk_is_formatted_and_shared_by_pods(tmp_path: Path, disk: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create_bound_claim(local={"path": str(disk), "fsType": "ext4"}, nodeAffinity=node_affinity("n"))
        await scene.client.for_kind(Node).patch(
            "n", {"metadata": {"labels": {"kubernetes.io/hostname": "n"}}}, type=PatchType.MERGE
        )
        pods = [await scene.pod(name, volumes=[CLAIM_VOLUME]) for name in ("one", "two")]
        async with scene.running_manager() as manager:
            for pod in pods:
                await manager.mount(pod)
            (scene.directory(pods[0], "local-volume", "v") / "file").write_text("shared")
            assert (scene.directory(pods[1], "local-volume", "v") / "file").read_text() == "shared"
            mounted = scene.root / "plugins/kubernetes.io/local-volume/mounts/v"
            assert mounted in kernel.mounts_below(scene.root)
            await manager.unmount(pods[0])
            assert mounted in kernel.mounts_below(scene.root)
            await manager.unmount(pods[1])
            assert not mounted.exists()

    run_scenario(tmp_path, scenario)


@needs_root
@pytest.mark.skipif(shutil.which("resize2fs") is None, reason="there is no resize2fs here")
def test_the_file_system_of_a_local_disk_is_expanded_online(tmp_path: Path, disk: Path) -> None:
    """The claim reports the new capacity, or the error if the kernel denies the resize."""

    async def scenario(scene: Scene) -> None:
        await scene.create_bound_claim(local={"path": str(disk), "fsType": "ext4"}, nodeAffinity=node_affinity("n"))
        labels = {"metadata": {"labels": {"kubernetes.io/hostname": "n"}}}
        await scene.client.for_kind(Node).patch("n", labels, type=PatchType.MERGE)
        pod = await scene.pod(volumes=[CLAIM_VOLUME])
        claims = scene.client.for_kind(PersistentVolumeClaim)

        async def patch_claim_status(**status: Any) -> None:
            await claims.patch("c", {"status": status}, "default", type=PatchType.MERGE, subresource="status")

        await patch_claim_status(capacity={"storage": "1Gi"})
        async with scene.running_manager() as manager:
            await manager.mount(pod)
            path = scene.directory(pod, "local-volume", "v")
            before = os.statvfs(path).f_blocks
            with (tmp_path / "image").open("r+b") as image:
                image.truncate(32 << 20)
            await run_program("losetup", "-c", str(disk))
            await scene.client.for_kind(PersistentVolume).patch(
                "v", {"spec": {"capacity": {"storage": "2Gi"}}}, type=PatchType.MERGE
            )
            await patch_claim_status(
                allocatedResources={"storage": "2Gi"}, allocatedResourceStatuses={"storage": "NodeResizePending"}
            )
            changed = copy_of(pod)
            changed.metadata.annotations = {"touched": "1"}
            manager.update_pod(changed)
            await scene.wait_for_object(PersistentVolumeClaim, "c", _is_settled)
            status = (await claims.get("c", "default")).status
            if kernel.held_capabilities() >> _CAP_SYS_RESOURCE & 1:
                assert status.capacity == {"storage": "2Gi"}
                assert os.statvfs(path).f_blocks > before
            else:  # the kernel requires this capability to resize a mounted file system
                assert "Permission denied to resize filesystem" in status.conditions[0].message
                assert os.statvfs(path).f_blocks == before
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


def _is_settled(claim: PersistentVolumeClaim) -> bool:
    return claim.status.capacity == {"storage": "2Gi"} or bool(claim.status.conditions)


@needs_root
def test_a_local_disk_as_a_block_device(tmp_path: Path, disk: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create_bound_claim(local={"path": str(disk)}, volumeMode="Block", nodeAffinity=node_affinity("n"))
        await scene.client.for_kind(Node).patch(
            "n", {"metadata": {"labels": {"kubernetes.io/hostname": "n"}}}, type=PatchType.MERGE
        )
        container = {"name": "c", "image": "i", "volumeDevices": [{"name": "data", "devicePath": "/dev/x"}]}
        pod = await scene.pod(volumes=[CLAIM_VOLUME], containers=[container])
        async with scene.running_manager() as manager:
            await manager.mount(pod)
            [device] = manager.devices(pod, (pod.spec.containers or [])[0])
            assert (device.host_path, device.path, device.permissions) == (str(disk), "/dev/x", "mrw")
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


@needs_root
@pytest.mark.skipif(os.path.exists("/sbin/mount.nfs"), reason="the machine can mount NFS")
def test_missing_nfs_mount_program_is_reported(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        pod = await scene.pod(volumes=[{"name": "v", "nfs": {"server": "127.0.0.1", "path": "/x"}}])
        async with scene.running_manager() as manager, asyncio.TaskGroup() as group:
            task = group.create_task(manager.mount(pod))
            message = await scene.wait_for_warning()
            assert message.startswith(
                'MountVolume.SetUp failed for volume "v" : mount failed: exit status 32\nMounting'
            )
            assert "Mounting arguments: -t nfs 127.0.0.1:/x" in message
            task.cancel()
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


@needs_root
def test_missing_iscsiadm_is_reported(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        source = {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:x", "lun": 0}
        pod = await scene.pod(volumes=[{"name": "v", "iscsi": source}])
        async with scene.running_manager() as manager, asyncio.TaskGroup() as group:
            task = group.create_task(manager.mount(pod))
            message = await scene.wait_for_warning()
            start = (
                'MountVolume.MountDevice failed for volume "v" : failed to get any path for iscsi disk, last err seen:'
            )
            assert message == f'{start}\nexec: "iscsiadm": executable file not found in $PATH'
            task.cancel()
            async with asyncio.timeout(60):
                await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


def test_an_in_tree_volume_of_a_vendor_needs_its_csi_driver(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        pod = await scene.pod(volumes=[{"name": "v", "rbd": {"monitors": ["m"], "image": "i"}}])
        async with scene.running_manager() as manager, asyncio.TaskGroup() as group:
            task = group.create_task(manager.mount(pod))
            start = 'MountVolume.FindPluginBySpec failed for volume "v" :'
            assert await scene.wait_for_warning() == f"{start} no volume plugin matched for rbd: use its CSI driver"
            task.cancel()
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)
