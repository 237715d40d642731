"""Mounting and unmounting of volumes against a real API server, with the permissions of a node."""

import asyncio
import base64
import os
import stat
from pathlib import Path

import jwt
import pytest

from sampan.api.types.certificates_v1 import ClusterTrustBundle
from sampan.api.types.core_v1 import ConfigMap, Pod, Secret
from sampan.host.clock import VirtualClock
from sampan.kubelet.volumes import VolumeManager
from sampan.kubelet.volumes.mounter import Mounter
from sampan.machinery.client import PatchType
from sampan.machinery.pki.certificates import make_ca
from sampan.runtimes.contract import RuntimeFailure
from tests.eventually import eventually
from tests.kubelet.volumes.volume_manager_node import Scene, needs_root, run_scenario


async def failure_of(manager: VolumeManager, pod: Pod) -> str:
    """Return the message with which mounting the pod's volumes fails."""
    with pytest.raises(RuntimeFailure) as failure:
        await manager.mount(pod)
    assert failure.value.reason == "FailedMount"
    return failure.value.message


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@needs_root
def test_volumes_of_many_types_are_mounted_and_unmounted(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create(ConfigMap, "m", data={"key": "text"}, binaryData={"raw": base64.b64encode(b"\xff").decode()})
        await scene.create(Secret, "s", stringData={"user": "me", "word": "open"})
        volumes = [
            {"name": "disk", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "map", "configMap": {"name": "m"}},
            {"name": "some", "configMap": {"name": "m", "items": [{"key": "key", "path": "a/b", "mode": 0o400}]}},
            {"name": "word", "secret": {"secretName": "s", "defaultMode": 0o440}},
            {
                "name": "own",
                "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]},
            },
            {"name": "host", "hostPath": {"path": str(tmp_path / "host"), "type": "DirectoryOrCreate"}},
            {"name": "unused", "secret": {"secretName": "not there"}},
        ]
        mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes[:-1]]
        pod = await scene.pod(volumes=volumes, mounts=mounts, metadata={"labels": {"a": "b"}})
        async with scene.running_manager() as manager:
            await manager.mount(pod)
            assert mode(scene.directory(pod, "empty-dir", "disk")) == 0o777
            memory = scene.directory(pod, "empty-dir", "memory")
            assert os.statvfs(memory).f_blocks * os.statvfs(memory).f_frsize == 1 << 20
            path = scene.directory(pod, "configmap", "map")
            assert ((path / "key").read_text(), (path / "raw").read_bytes()) == ("text", b"\xff")
            assert mode(path / "key") == 0o644
            assert mode(scene.directory(pod, "configmap", "some") / "a/b") == 0o400
            assert mode(scene.directory(pod, "secret", "word") / "word") == 0o440
            assert Mounter().kind(scene.directory(pod, "secret", "word")) == "tmpfs"
            assert (scene.directory(pod, "downward-api", "own") / "labels").read_text() == 'a="b"'
            container = (pod.spec.containers or [])[0]
            mounts_by_target = {mount.target: mount for mount in manager.mounts(pod, container)}
            assert mounts_by_target["/host"].source == tmp_path / "host"
            assert [target for target, mount in mounts_by_target.items() if mount.is_read_only] == [
                "/map",
                "/some",
                "/word",
                "/own",
            ]
            assert manager.list_pod_uids() == [pod.metadata.uid]
            await manager.mount(pod)
            await manager.unmount(pod)
            assert manager.list_pod_uids() == []
            assert list((scene.root / "pods" / pod.metadata.uid).iterdir()) == []
            assert (tmp_path / "host").is_dir()
            assert scene.events == []

    run_scenario(tmp_path, scenario)


@needs_root
def test_object_changes_update_volumes_of_running_pods(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create(ConfigMap, "m", data={"a": "1", "b": "2"})
        await scene.create(Secret, "s", stringData={"a": "1"})
        sources = [{"configMap": {"name": "m"}}, {"secret": {"name": "s", "items": [{"key": "a", "path": "word"}]}}]
        items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
        volumes = [
            {"name": "map", "configMap": {"name": "m"}},
            {"name": "both", "projected": {"sources": [*sources, {"downwardAPI": {"items": items}}]}},
            {"name": "later", "secret": {"secretName": "later", "optional": True}},
        ]
        pod = await scene.pod(volumes=volumes, metadata={"labels": {"x": "1"}})
        async with scene.running_manager() as manager:
            await manager.mount(pod)
            both = scene.directory(pod, "projected", "both")
            assert {path.name for path in both.iterdir() if not path.name.startswith("..")} == {
                "a",
                "b",
                "word",
                "labels",
            }
            await scene.client.for_kind(ConfigMap).patch(
                "m", {"data": {"a": "3", "b": None}}, "default", type=PatchType.MERGE
            )
            await eventually(lambda: (scene.directory(pod, "configmap", "map") / "a").read_text() == "3")
            await eventually(lambda: (both / "a").read_text() == "3" and not (both / "b").exists())
            await scene.client.for_kind(Secret).patch("s", {"stringData": {"a": "9"}}, "default", type=PatchType.MERGE)
            await eventually(lambda: (both / "word").read_text() == "9")
            await scene.create(Secret, "later", stringData={"a": "here"})
            later = scene.directory(pod, "secret", "later")
            await eventually(lambda: (later / "a").exists() and (later / "a").read_text() == "here")
            patch = {"metadata": {"labels": {"x": "2"}}}
            manager.update_pod(await scene.client.for_kind(Pod).patch("p", patch, "default", type=PatchType.MERGE))
            await eventually(lambda: (both / "labels").read_text() == 'x="2"')
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


@needs_root
@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        (
            {"projected": {"sources": [{"secret": {"name": "x"}}, {"configMap": {"name": "y"}}]}},
            '[secret "x" not found, configmap "y" not found]',
        ),
        (
            {"configMap": {"name": "m", "items": [{"key": "no", "path": "p"}]}},
            "configmap references non-existent config key: no",
        ),
        (
            {"hostPath": {"path": "/etc/passwd", "type": "Directory"}},
            "hostPath type check failed: /etc/passwd is not a directory",
        ),
        (
            {"gitRepo": {"repository": "r"}},
            "git-repo volume plugin has been disabled; if necessary, it may be re-enabled by enabling the feature-gate "
            "`GitRepoVolumeDriver`",
        ),
        (
            {"csi": {"driver": "no.example.com"}},
            "kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: driver name no.example.com not found in the "
            "list of registered CSI drivers",
        ),
    ],
)
def test_setup_errors_are_reported(tmp_path: Path, volume: dict[str, object], message: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create(ConfigMap, "m", data={})
        pod = await scene.pod(volumes=[{"name": "v", **volume}])
        clock = VirtualClock()
        async with scene.running_manager(clock=clock) as manager:
            async with asyncio.TaskGroup() as group:
                failure = group.create_task(failure_of(manager, pod))
                assert await scene.wait_for_warning() == f'MountVolume.SetUp failed for volume "v" : {message}'
                assert scene.events[0][:2] == ("p", "FailedMount")
                while not failure.done():
                    await clock.advance(20)
                    await asyncio.sleep(0)
            parts = "unattached volumes=[], failed to process volumes=[]"
            assert failure.result() == (
                f"Unable to attach or mount volumes: unmounted volumes=[v], {parts}: context deadline exceeded"
            )
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


def test_mount_continues_when_a_missing_config_map_is_created(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        pod = await scene.pod(volumes=[{"name": "v", "configMap": {"name": "later"}}])
        async with scene.running_manager(clock=VirtualClock(), mounter=Mounter(can_mount=False)) as manager:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(manager.mount(pod))
                await scene.wait_for_warning()
                assert not task.done()
                await scene.create(ConfigMap, "later", data={"a": "1"})
            assert (scene.directory(pod, "configmap", "v") / "a").read_text() == "1"
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


def test_tokens_are_bound_and_renewed(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        clock = scene.cluster.clock
        assert isinstance(clock, VirtualClock)
        source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600, "audience": "me"}}
        pod = await scene.pod(
            volumes=[{"name": "v", "projected": {"sources": [source]}}], securityContext={"runAsUser": os.getuid()}
        )
        async with scene.running_manager(mounter=Mounter(can_mount=False)) as manager:
            await manager.mount(pod)
            file = scene.directory(pod, "projected", "v") / "token"
            first = file.read_text()
            claims = jwt.decode(first, options={"verify_signature": False})
            assert claims["aud"] == ["me"]
            assert claims["kubernetes.io"]["pod"] == {"name": "p", "uid": pod.metadata.uid}
            assert claims["exp"] - claims["iat"] == 3600
            assert mode(file) == 0o600
            await clock.advance(2800)
            assert file.read_text() == first
            await clock.advance(100)
            await eventually(lambda: file.read_text() != first)
            assert jwt.decode(file.read_text(), options={"verify_signature": False})["iat"] > claims["iat"] + 2800
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario, clock=VirtualClock())


def test_cluster_trust_bundles_are_projected(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        for name in "ab":
            pair = make_ca(name, now=scene.cluster.clock.now())
            await scene.create(ClusterTrustBundle, name, "", spec={"trustBundle": pair.certificate.decode()})
        sources = [
            {"clusterTrustBundle": {"name": "a", "path": "a.pem"}},
            {"clusterTrustBundle": {"name": "b", "path": "b.pem"}},
            {"clusterTrustBundle": {"name": "none", "path": "none.pem", "optional": True}},
            {"clusterTrustBundle": {"signerName": "x.io/y", "labelSelector": {}, "path": "y.pem", "optional": True}},
        ]
        pod = await scene.pod(volumes=[{"name": "v", "projected": {"sources": sources, "defaultMode": 0o644}}])
        async with scene.running_manager(mounter=Mounter(can_mount=False)) as manager:
            await manager.mount(pod)
            directory = scene.directory(pod, "projected", "v")
            texts = {name: (directory / f"{name}.pem").read_text() for name in ("a", "b", "none", "y")}
            assert [text.count("BEGIN CERTIFICATE") for text in texts.values()] == [1, 1, 0, 0]
            assert texts["a"] != texts["b"]
            pair = make_ca("c", now=scene.cluster.clock.now())
            await scene.create(ClusterTrustBundle, "none", "", spec={"trustBundle": pair.certificate.decode()})
            await eventually(lambda: (directory / "none.pem").read_bytes() == pair.certificate)
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


@needs_root
def test_restarted_kubelet_reconstructs_volumes(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create(Secret, "s", stringData={"a": "1"})
        volumes = [
            {"name": "disk", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
            {"name": "word", "secret": {"secretName": "s"}},
        ]
        mounts = [
            {"name": "disk", "mountPath": "/disk", "subPath": "part"},
            *({"name": name, "mountPath": f"/{name}"} for name in ("memory", "word")),
        ]
        stays = await scene.pod("stays", volumes=volumes, mounts=mounts)
        goes = await scene.pod("goes", volumes=volumes, mounts=mounts)
        async with scene.running_manager() as manager:
            for pod in (stays, goes):
                await manager.mount(pod)
                manager.mounts(pod, (pod.spec.containers or [])[0])
                (scene.directory(pod, "empty-dir", "disk") / "kept").write_text(pod.metadata.name)
                (scene.directory(pod, "empty-dir", "memory") / "kept").write_text(pod.metadata.name)
        async with scene.running_manager() as manager:
            assert set(manager.list_pod_uids()) == {stays.metadata.uid, goes.metadata.uid}
            manager.update_pod(stays)
            await scene.client.for_kind(Secret).patch("s", {"stringData": {"a": "2"}}, "default", type=PatchType.MERGE)
            await eventually(lambda: (scene.directory(stays, "secret", "word") / "a").read_text() == "2")
            await manager.mount(stays)
            for name in ("disk", "memory"):
                assert (scene.directory(stays, "empty-dir", name) / "kept").read_text() == "stays"
            await manager.unmount(goes.metadata.uid)
            assert not (scene.root / "pods" / goes.metadata.uid / "volumes").exists()
            assert manager.list_pod_uids() == [stays.metadata.uid]
            await manager.unmount(stays)
            assert manager.list_pod_uids() == []

    run_scenario(tmp_path, scenario)


def test_volume_of_an_added_ephemeral_container_is_mounted(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]
        pod = await scene.pod(volumes=volumes, mounts=[{"name": "a", "mountPath": "/a"}])
        async with scene.running_manager(mounter=Mounter(can_mount=False)) as manager:
            await manager.mount(pod)
            assert not scene.directory(pod, "empty-dir", "b").exists()
            more = {"name": "d", "image": "i", "volumeMounts": [{"name": "b", "mountPath": "/b"}]}
            patch = {"spec": {"ephemeralContainers": [more]}}
            pod = await scene.client.for_kind(Pod).patch("p", patch, "default", subresource="ephemeralcontainers")
            manager.update_pod(pod)
            await manager.mount(pod)
            [mount] = manager.mounts(pod, pod.spec.ephemeralContainers[0])
            assert mount.source == scene.directory(pod, "empty-dir", "b")
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


@needs_root
def test_fs_group_owns_volumes(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create(Secret, "s", stringData={"a": "1"})
        volumes = [
            {"name": "disk", "emptyDir": {}},
            {"name": "word", "secret": {"secretName": "s", "defaultMode": 0o400}},
        ]
        pod = await scene.pod(volumes=volumes, securityContext={"fsGroup": 4242})
        async with scene.running_manager() as manager:
            await manager.mount(pod)
            disk = scene.directory(pod, "empty-dir", "disk").stat()
            assert (disk.st_gid, stat.S_IMODE(disk.st_mode)) == (4242, 0o2777)
            word = (scene.directory(pod, "secret", "word") / "a").stat()
            assert (word.st_gid, stat.S_IMODE(word.st_mode)) == (4242, 0o440)
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


def test_empty_dir_above_its_size_limit_is_reported(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        clock = VirtualClock()
        volumes = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]
        pod, full = await scene.pod(volumes=volumes), await scene.pod("full", volumes=volumes)
        async with scene.running_manager(clock=clock, mounter=Mounter(can_mount=False)) as manager:
            await manager.mount(pod)
            directory = scene.directory(pod, "empty-dir", "v")
            (directory / "some").write_bytes(b"x" * (512 << 10))
            # Pods are measured in the order of their mounts: once the second one is reported, the first was measured.
            await manager.mount(full)
            (scene.directory(full, "empty-dir", "v") / "much").write_bytes(b"x" * (2 << 20))
            await eventually(lambda: bool(scene.excesses), step=lambda: clock.advance(10))
            assert {name for name, _ in scene.excesses} == {"full"}
            (directory / "more").write_bytes(b"x" * (600 << 10))
            message = 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". '
            await eventually(lambda: ("p", message) in scene.excesses, step=lambda: clock.advance(10))
            [usage] = await manager.usage(pod)
            assert (usage.name, usage.used_inodes) == ("v", 3)
            assert usage.used_bytes >= 1112 << 10
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)


@needs_root
@pytest.mark.skipif(not Path("/sys/kernel/mm/hugepages/hugepages-2048kB").exists(), reason="there are no huge pages")
def test_empty_dir_on_huge_pages(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        requests = {"hugepages-2Mi": "4Mi", "memory": "1Mi", "cpu": "1m"}
        mounts = [{"name": "pages", "mountPath": "/pages"}]
        container = {"name": "c", "image": "i", "volumeMounts": mounts, "resources": {"limits": requests}}
        pod = await scene.pod(volumes=[{"name": "pages", "emptyDir": {"medium": "HugePages"}}], containers=[container])
        async with scene.running_manager() as manager:
            await manager.mount(pod)
            assert Mounter().kind(scene.directory(pod, "empty-dir", "pages")) == "hugetlbfs"
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)
