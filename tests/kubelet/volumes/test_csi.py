"""Volumes of a CSI driver over real gRPC, with real mounts."""

import asyncio
from pathlib import Path

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Node, PersistentVolumeClaim, Pod, Secret
from sampan.api.types.storage_v1 import CSINode, VolumeAttachment
from sampan.host.clock import VirtualClock
from sampan.kubelet.volumes import VolumeManager
from sampan.kubelet.volumes.csi.conversions import attachment_name
from sampan.machinery.client import PatchType
from sampan.runtimes.contract import RuntimeFailure
from tests.eventually import eventually
from tests.kubelet.volumes.csi_driver import MOUNT_GROUP, NAME, DirectoryDriver
from tests.kubelet.volumes.csi_objects import CLAIM, csi_volume, driver_object
from tests.kubelet.volumes.volume_manager_node import Scene, needs_root, run_scenario

pytestmark = needs_root
UNIQUE = f"kubernetes.io/csi/{NAME}^handle"


async def attach(scene: Scene) -> None:
    """Attach the volume, as the attach/detach controller and the driver's attacher do."""
    name = attachment_name("handle", NAME, "n")
    spec = {"attacher": NAME, "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    await scene.create(VolumeAttachment, name, "", spec=spec)
    status = {"status": {"attached": True, "attachmentMetadata": {"device": "/dev/x"}}}
    await scene.client.for_kind(VolumeAttachment).patch(name, status, type=PatchType.MERGE, subresource="status")
    node = {"status": {"volumesAttached": [{"name": UNIQUE, "devicePath": ""}]}}
    await scene.client.for_kind(Node).patch("n", node, type=PatchType.MERGE, subresource="status")


def test_volume_is_staged_published_and_unstaged(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        driver = DirectoryDriver(tmp_path / "data", topology={"topology.example.com/zone": "z1"})
        await driver_object(scene, attachRequired=False, podInfoOnMount=True, fsGroupPolicy="File")
        await csi_volume(scene, pv={"mountOptions": ["noatime"]}, fsType="ext4")
        pods = [await scene.pod(name, volumes=CLAIM, securityContext={"fsGroup": 77}) for name in ("one", "two")]
        async with driver.serving(scene.root / "plugins_registry"), scene.running_manager() as manager:
            await driver.registered.wait()
            assert driver.status.plugin_registered
            [driver_] = (await scene.client.for_kind(CSINode).get("n")).spec.drivers or []
            assert (driver_.name, driver_.nodeID, driver_.topologyKeys) == (
                NAME,
                "node-of-driver",
                ["topology.example.com/zone"],
            )
            assert driver_.allocatable is not None
            assert driver_.allocatable.count == 7
            node = await scene.client.for_kind(Node).get("n")
            assert node.metadata.labels["topology.example.com/zone"] == "z1"
            assert node.metadata.annotations["csi.volume.kubernetes.io/nodeid"] == f'{{"{NAME}":"node-of-driver"}}'
            for pod in pods:
                await manager.mount(pod)
            staged = driver.list_requests("NodeStageVolume")
            assert [request.volume_id for request in staged] == ["handle"]
            assert dict(staged[0].volume_context) == {"color": "red"}
            assert (staged[0].volume_capability.mount.fs_type, list(staged[0].volume_capability.mount.mount_flags)) == (
                "ext4",
                ["noatime"],
            )
            assert staged[0].volume_capability.access_mode.mode == 1
            published = driver.list_requests("NodePublishVolume")
            assert published[0].staging_target_path == staged[0].staging_target_path
            assert dict(published[0].volume_context)["csi.storage.k8s.io/pod.name"] == "one"
            paths = [scene.directory(pod, "csi", "v") / "mount" for pod in pods]
            (paths[0] / "file").write_text("shared")
            assert (paths[1] / "file").read_text() == "shared"
            assert paths[0].stat().st_gid == 77
            [mount] = manager.mounts(pods[0], (pods[0].spec.containers or [])[0])
            assert mount.source == paths[0]
            await manager.unmount(pods[0])
            assert driver.list_requests("NodeUnstageVolume") == []
            await manager.unmount(pods[1])
            assert len(driver.list_requests("NodeUnpublishVolume")) == 2
            assert len(driver.list_requests("NodeUnstageVolume")) == 1
            assert (tmp_path / "data/handle/file").read_text() == "shared"
            assert list((scene.root / "plugins/kubernetes.io/csi" / NAME).iterdir()) == []

    run_scenario(tmp_path, scenario)


def test_mount_waits_for_attachment(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        driver = DirectoryDriver(tmp_path / "data")
        await csi_volume(scene)
        pod = await scene.pod(volumes=CLAIM)
        async with driver.serving(scene.root / "plugins_registry"), scene.running_manager() as manager:
            await driver.registered.wait()
            async with asyncio.TaskGroup() as group:
                task = group.create_task(manager.mount(pod))

                await eventually(lambda: list(manager.list_volumes_in_use()) == [UNIQUE])
                await scene.wait_for_object(Node, "n", lambda node: node.status.volumesInUse == [UNIQUE])
                assert not task.done()
                await attach(scene)
            assert dict(driver.list_requests("NodePublishVolume")[0].publish_context) == {"device": "/dev/x"}
            assert list(manager.list_volumes_in_use()) == [UNIQUE]
            await manager.unmount(pod)
            assert manager.list_volumes_in_use() == []
            assert (await scene.client.for_kind(Node).get("n")).status.volumesInUse == []

    run_scenario(tmp_path, scenario)


def test_mount_times_out_without_attachment(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        driver, clock = DirectoryDriver(tmp_path / "data"), VirtualClock()
        await csi_volume(scene)
        pod = await scene.pod(volumes=CLAIM)
        async with driver.serving(scene.root / "plugins_registry"), scene.running_manager(clock=clock) as manager:
            await driver.registered.wait()
            async with asyncio.TaskGroup() as group:
                failure = group.create_task(_failure(manager, pod))
                await eventually(failure.done, step=lambda: clock.advance(10))
            parts = "unmounted volumes=[data], unattached volumes=[data], failed to process volumes=[]"
            assert failure.result() == f"Unable to attach or mount volumes: {parts}: context deadline exceeded"
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


async def _failure(manager: VolumeManager, pod: Pod) -> str:
    with pytest.raises(RuntimeFailure) as failure:
        await manager.mount(pod)
    return failure.value.message


def test_the_error_of_the_driver_is_reported(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        driver = DirectoryDriver(tmp_path / "data", claim_errors={"NodeStageVolume": "no disk"})
        await driver_object(scene, attachRequired=False)
        await csi_volume(scene)
        pod = await scene.pod(volumes=CLAIM)
        async with driver.serving(scene.root / "plugins_registry"), scene.running_manager() as manager:
            await driver.registered.wait()
            async with asyncio.TaskGroup() as group:
                task = group.create_task(manager.mount(pod))
                start = 'MountVolume.MountDevice failed for volume "v" : rpc error: code = Internal desc ='
                assert await scene.wait_for_warning() == f"{start} no disk"
                driver.claim_errors = {"NodePublishVolume": "no room"}
                while "no room" not in await scene.wait_for_warning():
                    pass
                start = 'MountVolume.SetUp failed for volume "v" : rpc error: code = Internal desc ='
                assert scene.events[-1][2] == f"{start} no room"
                driver.claim_errors = {}
                await task
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


def test_inline_volume_gets_pod_info_tokens_and_secrets(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        driver = DirectoryDriver(tmp_path / "data", abilities=(MOUNT_GROUP,))
        tokens = [{"audience": "vault", "expirationSeconds": 3600}]
        await driver_object(
            scene, attachRequired=False, podInfoOnMount=True, volumeLifecycleModes=["Ephemeral"], tokenRequests=tokens
        )
        await scene.create(Secret, "s", stringData={"user": "me"})
        source = {"driver": NAME, "nodePublishSecretRef": {"name": "s"}, "volumeAttributes": {"size": "1"}}
        pod = await scene.pod(volumes=[{"name": "inline", "csi": source}], securityContext={"fsGroup": 5})
        async with driver.serving(scene.root / "plugins_registry"), scene.running_manager() as manager:
            await driver.registered.wait()
            await manager.mount(pod)
            [call] = driver.list_requests("NodePublishVolume")
            context = dict(call.volume_context)
            assert (context["csi.storage.k8s.io/ephemeral"], context["size"]) == ("true", "1")
            assert "vault" in json.read_any(context["csi.storage.k8s.io/serviceAccount.tokens"].encode())
            assert dict(call.secrets) == {"user": "me"}
            assert call.volume_capability.mount.volume_mount_group == "5"
            assert call.volume_id.startswith("csi-")
            await manager.unmount(pod)
            assert driver.list_requests("NodeStageVolume") == driver.list_requests("NodeUnstageVolume") == []

    run_scenario(tmp_path, scenario)


def test_block_volume_is_published_as_a_device(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        driver = DirectoryDriver(tmp_path / "data")
        await driver_object(scene, attachRequired=False)
        await csi_volume(scene, pv={"volumeMode": "Block"})
        container = {"name": "c", "image": "i", "volumeDevices": [{"name": "data", "devicePath": "/dev/x"}]}
        pod = await scene.pod(volumes=CLAIM, containers=[container])
        async with driver.serving(scene.root / "plugins_registry"), scene.running_manager() as manager:
            await driver.registered.wait()
            await manager.mount(pod)
            assert driver.list_requests("NodeStageVolume")[0].volume_capability.HasField("block")
            path = scene.root / "plugins/kubernetes.io/csi/volumeDevices/publish/v" / pod.metadata.uid
            [device] = manager.devices(pod, (pod.spec.containers or [])[0])
            assert (device.host_path, path.is_char_device()) == (str(path), True)
            await manager.unmount(pod)
            assert not path.exists()
            assert len(driver.list_requests("NodeUnstageVolume")) == 1

    run_scenario(tmp_path, scenario)


def test_restarted_kubelet_unstages_volumes(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        driver = DirectoryDriver(tmp_path / "data")
        await driver_object(scene, attachRequired=False)
        await csi_volume(scene)
        pod = await scene.pod(volumes=CLAIM)
        async with driver.serving(scene.root / "plugins_registry"):
            async with scene.running_manager() as manager:
                await driver.registered.wait()
                await manager.mount(pod)
            async with scene.running_manager() as manager:
                await manager.unmount(pod.metadata.uid)
                assert (
                    len(driver.list_requests("NodeUnpublishVolume"))
                    == len(driver.list_requests("NodeUnstageVolume"))
                    == 1
                )

    run_scenario(tmp_path, scenario)


def test_failed_unstage_is_retried_after_a_restart(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        driver = DirectoryDriver(tmp_path / "data")
        await driver_object(scene, attachRequired=False)
        await csi_volume(scene)
        pod = await scene.pod(volumes=CLAIM)
        async with driver.serving(scene.root / "plugins_registry"):
            async with scene.running_manager() as manager:
                await driver.registered.wait()
                await manager.mount(pod)
                driver.claim_errors = {"NodeUnstageVolume": "not now"}
                async with asyncio.timeout(60):
                    await manager.unmount(pod)
            driver.claim_errors = {}
            async with scene.running_manager() as manager:
                await eventually(
                    lambda: len(driver.list_requests("NodeUnstageVolume")) > 1 and not manager.list_volumes_in_use()
                )

    run_scenario(tmp_path, scenario)


def test_stopped_driver_is_removed_from_csi_node(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        driver = DirectoryDriver(tmp_path / "data")
        async with scene.running_manager() as manager:
            async with driver.serving(scene.root / "plugins_registry"):
                await driver.registered.wait()
            await scene.wait_for_object(CSINode, "n", lambda csi_node: not csi_node.spec.drivers)
            assert manager.list_pod_uids() == []

    run_scenario(tmp_path, scenario)


def test_driver_that_stops_during_registration_is_removed_from_csi_node(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        driver = DirectoryDriver(tmp_path / "data", claim_errors={"NotifyRegistrationStatus": "just about to end"})
        async with scene.running_manager():
            async with driver.serving(scene.root / "plugins_registry"):
                await scene.wait_for_object(CSINode, "n", lambda csi_node: bool(csi_node.spec.drivers))
            await scene.wait_for_object(CSINode, "n", lambda csi_node: not csi_node.spec.drivers)
            assert len(driver.list_requests("NotifyRegistrationStatus")) <= 1

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        ("", 'failed to fetch PVC from API server: persistentvolumeclaims "c" not found'),
        ("Pending", "PVC is not bound"),
    ],
)
def test_missing_and_unbound_claims_are_reported(tmp_path: Path, phase: str, message: str) -> None:
    async def scenario(scene: Scene) -> None:
        if phase:
            spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            await scene.create(PersistentVolumeClaim, "c", spec=spec)
        pod = await scene.pod(volumes=CLAIM)
        async with scene.running_manager() as manager:
            failure = await _failure(manager, pod)
            assert scene.events[-1] == ("p", "FailedMount", failure)
            assert failure == (
                "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], "
                f"failed to process volumes=[data]: error processing PVC default/c: {message}"
            )
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)
