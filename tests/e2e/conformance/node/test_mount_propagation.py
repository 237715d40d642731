"""Mounts that pods and the node make below a directory that they share."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from sampan.api.types.core_v1 import Pod
from sampan.runtimes import kernel
from tests.e2e.conformance.node.pods import container, create_pod, delete, wait_until_gone, wait_until_ready
from tests.e2e.conformance.storage.real_node import RealNode, concurrent_scenario
from tests.eventually import eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
MS_PRIVATE, MS_SHARED = 1 << 18, 1 << 20
MODES: dict[str, dict[str, Any]] = {
    "master": {"mountPropagation": "Bidirectional"},
    "slave": {"mountPropagation": "HostToContainer"},
    "private": {"mountPropagation": "None"},
    "default": {},
}
SCRIPT = """
mkdir /mnt/test/{name} && touch /mnt/test/{name}/ready
until test -e /mnt/test/go; do sleep 0.1; done
mount -t tmpfs {name} /mnt/test/{name} && echo {name} > /mnt/test/{name}/file && touch /mnt/test/{name}-mounted
until test -e /mnt/test/look; do sleep 0.1; done
cd /mnt/test && for name in master slave private default host; do
  test -e $name/file && echo $name
done > /dev/termination-log
touch /mnt/test/{name}-looked
until test -e /mnt/test/unmount; do sleep 0.1; done
cd / && umount /mnt/test/{name}
"""


@contextmanager
def shared_directory() -> Iterator[Path]:
    """A directory whose mounts reach other mount namespaces, as those of a node's root directory do."""
    with TemporaryDirectory(prefix="sampan-") as directory:
        path = Path(directory)
        kernel.mount(path, path, flags=kernel.MS_BIND)
        kernel.mount("none", path, flags=MS_SHARED)
        try:
            yield path
        finally:
            for mount in kernel.mounts_below(path):
                kernel.unmount(mount)


@concurrent_scenario
async def test_mounts_propagate_within_their_scopes(node: RealNode) -> None:
    """Mount propagation should propagate mounts within defined scopes"""
    with shared_directory() as directory:
        for name, mode in MODES.items():
            mounts = [{"name": "host", "mountPath": "/mnt/test", **mode}]
            mounting = container(
                script=SCRIPT.format(name=name), volumeMounts=mounts, securityContext={"privileged": True}
            )
            volumes = [{"name": "host", "hostPath": {"path": str(directory)}}]
            await create_pod(node, mounting, name=name, volumes=volumes, restartPolicy="Never")
        for name in MODES:
            await wait_until_ready(node, name)
        await eventually(lambda: all((directory / name / "ready").exists() for name in MODES))
        (directory / "host").mkdir()
        kernel.mount("host", directory / "host", "tmpfs")
        (directory / "host/file").write_text("host")
        (directory / "go").touch()
        await eventually(lambda: all((directory / f"{name}-mounted").exists() for name in MODES))
        mounts_of_node = {name for name in (*MODES, "host") if (directory / name / "file").exists()}
        (directory / "look").touch()
        await eventually(lambda: all((directory / f"{name}-looked").exists() for name in MODES))
        (directory / "unmount").touch()
        visible_mounts = {name: set(node.output_of(await node.wait_until_succeeded(name)).split()) for name in MODES}
        for name in MODES:
            await delete(node, name)
            await wait_until_gone(node, name)
    assert mounts_of_node == {"master", "host"}
    assert visible_mounts == {
        "master": {"master", "host"},
        "slave": {"master", "slave", "host"},
        "private": {"private"},
        "default": {"default"},
    }


@concurrent_scenario
async def test_mounts_cannot_propagate_from_a_private_mount(node: RealNode) -> None:
    """The container is not started, as its mounts would silently be missing on the node."""
    with TemporaryDirectory(prefix="sampan-") as directory:
        kernel.mount(Path(directory), Path(directory), flags=kernel.MS_BIND)
        kernel.mount("none", Path(directory), flags=MS_PRIVATE)
        try:
            mounts = [{"name": "host", "mountPath": "/mnt/test", "mountPropagation": "Bidirectional"}]
            mounting = container(volumeMounts=mounts, securityContext={"privileged": True})
            await create_pod(node, mounting, volumes=[{"name": "host", "hostPath": {"path": directory}}])

            def message(pod: Pod) -> str:
                waiting = [status.state.waiting for status in pod.status.containerStatuses]
                return waiting[0].message if waiting and waiting[0] is not None else ""

            pod = await node.wait_for("p", lambda pod: "shared mount" in message(pod))
            assert message(pod) == f'path "{directory}" is mounted on "{directory}" but it is not a shared mount'
        finally:
            kernel.unmount(Path(directory))
