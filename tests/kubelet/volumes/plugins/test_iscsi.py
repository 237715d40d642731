"""iSCSI disks, with an iscsiadm that only logs its commands."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import ISCSIVolumeSource, Pod
from sampan.kubelet.volumes.contract import VolumeOperationError, VolumeSpec
from sampan.kubelet.volumes.plugins import iscsi
from sampan.kubelet.volumes.volume_host import VolumeHost, VolumeLayout
from sampan.runtimes import kernel
from tests.eventually import eventually
from tests.kubelet.volumes.volume_manager_node import Scene, needs_root, run_scenario

IQN = "iqn.2001-04.com.example:storage"
LOGOUT = [
    f"-m node -p 10.0.0.1:3260 -T {IQN} -I default --logout",
    f"-m node -p 10.0.0.1:3260 -T {IQN} -I default -o delete",
]


@pytest.fixture
def command_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which iscsiadm logs its arguments, line by line."""
    tool, notes = tmp_path / "bin/iscsiadm", tmp_path / "command_log"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\necho "$*" >> {notes}\n')
    tool.chmod(0o755)
    notes.touch()
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    return notes


def mount_disk(scene: Scene, lun: int) -> Path:
    """Mount a disk as an earlier kubelet has left it."""
    path = scene.root / f"plugins/kubernetes.io/iscsi/iface-default/10.0.0.1:3260-{IQN}-lun-{lun}"
    path.mkdir(parents=True)
    kernel.mount("tmpfs", path, "tmpfs")
    return path


@needs_root
def test_disks_that_no_pod_uses_are_logged_out_after_a_restart(tmp_path: Path, command_log: Path) -> None:
    async def scenario(scene: Scene) -> None:
        paths = [mount_disk(scene, lun) for lun in (0, 1)]
        async with scene.running_manager():
            await eventually(lambda: not any(path.exists() for path in paths))
            await eventually(lambda: command_log.read_text().splitlines() == LOGOUT)

    run_scenario(tmp_path, scenario)


@needs_root
def test_a_disk_in_use_is_logged_out_when_its_pod_is_unmounted(tmp_path: Path, command_log: Path) -> None:
    """The session is left only with its last disk."""

    async def scenario(scene: Scene) -> None:
        path, uid = mount_disk(scene, 0), "1b2c"
        target = scene.root / f"pods/{uid}/volumes/kubernetes.io~iscsi/v"
        note = scene.root / f"pods/{uid}/plugins/kubernetes.io~iscsi/v/device"
        for directory in (target, note.parent):
            directory.mkdir(parents=True)
        note.write_text(str(path))
        kernel.mount(path, target, flags=kernel.MS_BIND)
        async with scene.running_manager() as manager:
            assert manager.list_pod_uids() == [uid]
            await manager.unmount(uid)
            await eventually(lambda: command_log.read_text().splitlines() == LOGOUT)
            assert not path.exists()
            assert not target.exists()
            assert not note.exists()

    run_scenario(tmp_path, scenario)


@needs_root
@pytest.mark.parametrize("text", ["", "/", "/tmp", "{root}/plugins/kubernetes.io/iscsi/../../../x-lun-0"])
def test_a_stored_device_path_outside_of_the_plugin_directory_is_ignored(
    tmp_path: Path, command_log: Path, text: str
) -> None:
    async def scenario(scene: Scene) -> None:
        uid = "1b2c"
        note = scene.root / f"pods/{uid}/plugins/kubernetes.io~iscsi/v/device"
        for directory in (scene.root / f"pods/{uid}/volumes/kubernetes.io~iscsi/v", note.parent):
            directory.mkdir(parents=True)
        note.write_text(text.format(root=scene.root))
        async with scene.running_manager() as manager:
            await manager.unmount(uid)
            assert not note.exists()

    run_scenario(tmp_path, scenario)
    assert command_log.read_text() == ""


@pytest.mark.parametrize("source", [{"targetPortal": "../../../../tmp/x"}, {"iscsiInterface": "../../../etc"}])
def test_iscsi_portal_and_interface_with_slashes_are_rejected(tmp_path: Path, source: dict[str, str]) -> None:
    volume_source = {"targetPortal": "10.0.0.1", "iqn": IQN, "lun": 0, **source}
    pod = json.from_value({"spec": {"volumes": [{"name": "v", "iscsi": volume_source}]}}, Pod)
    plugin = iscsi.IscsiPlugin(cast(VolumeHost, SimpleNamespace(layout=VolumeLayout(tmp_path))))
    with pytest.raises(VolumeOperationError, match="must not contain slashes"):
        asyncio.run(plugin.device(VolumeSpec(pod=pod, volume=pod.spec.volumes[0])))


def test_commands_of_login_and_logout() -> None:
    source = ISCSIVolumeSource(iqn="iqn.x", targetPortal="10.0.0.1", lun=1, chapAuthSession=True)
    secret = {"node.session.auth.username": "me", "node.session.auth.password": "word"}
    commands = [" ".join(command) for command in iscsi.login(source, "10.0.0.1:3260", secret)]
    node = "-m node -p 10.0.0.1:3260 -T iqn.x -I default"
    assert commands == [
        "-m discoverydb -t sendtargets -p 10.0.0.1:3260 -I default -o new",
        "-m discoverydb -t sendtargets -p 10.0.0.1:3260 -I default --discover",
        f"{node} -o update -n node.session.scan -v manual",
        f"{node} -o update -n node.session.auth.authmethod -v CHAP",
        f"{node} -o update -n node.session.auth.username -v me",
        f"{node} -o update -n node.session.auth.password -v word",
        f"{node} --login",
        "-m node -p 10.0.0.1:3260 -T iqn.x -o update -n node.startup -v manual",
    ]
    assert [command[-1] for command in iscsi.logout("p", "iqn.x", "default")] == ["--logout", "delete"]
