"""Restarts of the kubelet at any moment: volumes are reconstructed, no data is lost, no mount is left behind."""

import asyncio
import contextlib
import random
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import ConfigMap, Pod, Secret
from sampan.kubelet.volumes import VolumeManager
from sampan.runtimes import kernel
from tests.kubelet.volumes.csi_driver import NAME, DirectoryDriver
from tests.kubelet.volumes.csi_objects import csi_volume, driver_object
from tests.kubelet.volumes.volume_manager_node import Scene, needs_root, run_scenario

VOLUMES = [
    {"name": "disk", "emptyDir": {}},
    {"name": "memory", "emptyDir": {"medium": "Memory"}},
    {"name": "map", "configMap": {"name": "m"}},
    {"name": "word", "secret": {"secretName": "s"}},
    {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
]
MOUNTS = [
    {"name": "disk", "mountPath": "/disk", "subPath": "part"},
    *({"name": name, "mountPath": f"/{name}"} for name in ("memory", "map", "word", "data")),
]


async def work_until_interrupted(
    manager: VolumeManager, pods: list[Pod], pause_s: float, choose: random.Random
) -> None:
    """Mount and unmount at random, and stop after the time in the middle of any operation."""

    async def work(pod: Pod) -> None:
        while True:
            await manager.mount(pod)
            manager.mounts(pod, (pod.spec.containers or [])[0])
            await asyncio.sleep(choose.random() * 0.02)
            if choose.random() < 0.5:
                await manager.unmount(pod)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(pause_s), asyncio.TaskGroup() as group:
            for pod in pods:
                group.create_task(work(pod))


@needs_root
@pytest.mark.parametrize("seed", range(3))
def test_random_restarts_keep_volumes_and_leave_no_mounts(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)

    async def scenario(scene: Scene) -> None:
        driver = DirectoryDriver(tmp_path / "data")
        await driver_object(scene, attachRequired=False)
        await csi_volume(scene)
        await scene.create(ConfigMap, "m", data={"a": "1"})
        await scene.create(Secret, "s", stringData={"a": "1"})
        pods = [await scene.pod(f"p{number}", volumes=VOLUMES, mounts=MOUNTS) for number in range(3)]
        kept = pods[0]
        async with driver.serving(scene.root / "plugins_registry"):
            async with scene.running_manager() as manager:
                await driver.registered.wait()
                await manager.mount(kept)
                (scene.directory(kept, "empty-dir", "memory") / "file").write_text("kept")
            for _ in range(4):
                async with scene.running_manager() as manager:
                    await work_until_interrupted(manager, pods[1:], choose.random() * 0.3, choose)
            async with scene.running_manager() as manager:
                await manager.mount(kept)
                assert (scene.directory(kept, "empty-dir", "memory") / "file").read_text() == "kept"
                assert (scene.directory(kept, "configmap", "map") / "a").read_text() == "1"
                for uid in manager.list_pod_uids():
                    await manager.unmount(uid)
                assert manager.list_pod_uids() == []
        assert kernel.mounts_below(scene.root) == []
        assert [
            path for path in (scene.root / "pods").rglob("*") if path.name not in {p.metadata.uid for p in pods}
        ] == []
        assert list((scene.root / "plugins/kubernetes.io/csi" / NAME).iterdir()) == []

    run_scenario(tmp_path, scenario)


@needs_root
def test_volumes_are_mounted_again_after_a_reboot(tmp_path: Path) -> None:
    """After a reboot nothing is mounted, but the directories exist: an existing pod gets its volumes again, and
    nothing is left of a pod that was deleted meanwhile."""

    async def scenario(scene: Scene) -> None:
        driver = DirectoryDriver(tmp_path / "data")
        await driver_object(scene, attachRequired=False)
        await csi_volume(scene)
        await scene.create(ConfigMap, "m", data={"a": "1"})
        await scene.create(Secret, "s", stringData={"a": "1"})
        kept, gone = [await scene.pod(name, volumes=VOLUMES, mounts=MOUNTS) for name in ("kept", "gone")]
        async with driver.serving(scene.root / "plugins_registry"):
            async with scene.running_manager() as manager:
                for pod in (kept, gone):
                    await manager.mount(pod)
                    manager.mounts(pod, (pod.spec.containers or [])[0])
                (scene.directory(kept, "empty-dir", "disk") / "part/file").write_text("still here")
            for path in kernel.mounts_below(scene.root):
                kernel.unmount(path)
            async with scene.running_manager() as manager:
                await manager.unmount(gone.metadata.uid)
                await manager.mount(kept)
                sources = {
                    mount.target: mount.source for mount in manager.mounts(kept, (kept.spec.containers or [])[0])
                }
                assert (sources["/disk"] / "file").read_text() == "still here"
                assert ((sources["/word"] / "a").read_text(), (sources["/map"] / "a").read_text()) == ("1", "1")
                assert {sources["/memory"], sources["/word"], sources["/data"]} <= set(kernel.mounts_below(scene.root))
                await manager.unmount(kept)
        assert list((scene.root / "pods").glob("*/volumes")) == []

    run_scenario(tmp_path, scenario)
