"""A kubelet that ends at any moment: what was mounted is known to the next, nothing is lost, nothing stays behind."""

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
from tests.kubelet.volumes.volume_manager_node import Scene, needs_root, play

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


async def cut_short(manager: VolumeManager, pods: list[Pod], pause_s: float, choose: random.Random) -> None:
    """Mount and unmount at random until the time is up, however far that has come."""

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
def test_at_random(tmp_path: Path, seed: int) -> None:
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
            async with scene.managing() as manager:
                await driver.registered.wait()
                await manager.mount(kept)
                (scene.directory(kept, "empty-dir", "memory") / "file").write_text("kept")
            for _ in range(4):
                async with scene.managing() as manager:
                    await cut_short(manager, pods[1:], choose.random() * 0.3, choose)
            async with scene.managing() as manager:
                await manager.mount(kept)
                assert (scene.directory(kept, "empty-dir", "memory") / "file").read_text() == "kept"
                assert (scene.directory(kept, "configmap", "map") / "a").read_text() == "1"
                for uid in manager.known_pods():
                    await manager.unmount(uid)
                assert manager.known_pods() == []
        assert kernel.mounts_below(scene.root) == []
        assert [
            path for path in (scene.root / "pods").rglob("*") if path.name not in {p.metadata.uid for p in pods}
        ] == []
        assert list((scene.root / "plugins/kubernetes.io/csi" / NAME).iterdir()) == []

    play(tmp_path, scenario)


@needs_root
def test_a_machine_that_comes_back(tmp_path: Path) -> None:
    """Nothing is mounted any more, but the directories are there: a pod that is still wanted gets its volumes again, of
    another that has gone meanwhile nothing stays."""

    async def scenario(scene: Scene) -> None:
        driver = DirectoryDriver(tmp_path / "data")
        await driver_object(scene, attachRequired=False)
        await csi_volume(scene)
        await scene.create(ConfigMap, "m", data={"a": "1"})
        await scene.create(Secret, "s", stringData={"a": "1"})
        kept, gone = [await scene.pod(name, volumes=VOLUMES, mounts=MOUNTS) for name in ("kept", "gone")]
        async with driver.serving(scene.root / "plugins_registry"):
            async with scene.managing() as manager:
                for pod in (kept, gone):
                    await manager.mount(pod)
                    manager.mounts(pod, (pod.spec.containers or [])[0])
                (scene.directory(kept, "empty-dir", "disk") / "part/file").write_text("still here")
            for path in kernel.mounts_below(scene.root):
                kernel.unmount(path)
            async with scene.managing() as manager:
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

    play(tmp_path, scenario)
