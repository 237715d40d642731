"""Mount propagation, recursive read-only mounts and image volumes with subPath on a real node."""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sampan.api.types.core_v1 import Event
from sampan.machinery.client import Selection
from sampan.runtimes import kernel
from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import COMPONENTS, RealNode, missing_requirement, run_scenario
from tests.runtimes.images.builders import MadeImage
from tests.runtimes.images.registry import FakeRegistry, serving

MS_SHARED = 1 << 20


@contextmanager
def shared_directory() -> Iterator[Path]:
    """Yield a directory with shared mount propagation."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        kernel.mount(directory, directory, flags=kernel.MS_BIND)
        kernel.mount("none", directory, flags=MS_SHARED)
        (directory / "inner").mkdir()
        try:
            yield directory
        finally:
            for path in kernel.mounts_below(directory):
                kernel.unmount(path)


def mount(**more: Any) -> list[dict[str, Any]]:
    return [{"name": "v", "mountPath": "/v", **more}]


async def check_mount_propagation(node: RealNode) -> None:
    with shared_directory() as directory:
        volume = {"name": "v", "hostPath": {"path": str(directory)}}
        wait = "until [ -e /v/mounted ]; do sleep 0.1; done; cat /v/inner/file || echo nothing"
        for name, mode in (("sees", "HostToContainer"), ("sees-not", "None")):
            await node.start(wait, volume, name=name, mounts=mount(mountPropagation=mode))
            await node.wait_until_running(name)
        makes = "mount -t tmpfs t /v/inner && echo new > /v/inner/file && touch /v/mounted"
        privileged = {"securityContext": {"privileged": True}}
        mounts = mount(mountPropagation="Bidirectional")
        await node.wait_until_succeeded(
            await node.start(makes, volume, name="makes", mounts=mounts, container=privileged)
        )
        assert (directory / "inner/file").read_text() == "new\n"
        assert node.output_of(await node.wait_until_succeeded("sees")) == "new"
        assert "nothing" in node.output_of(await node.wait_until_succeeded("sees-not"))


async def check_recursive_read_only(node: RealNode) -> None:
    with shared_directory() as directory:
        kernel.mount("tmpfs", directory / "inner", "tmpfs")
        volume = {"name": "v", "hostPath": {"path": str(directory)}}
        tries = "touch /v/here 2>/dev/null || echo not here; touch /v/inner/$0 2>/dev/null || echo nor inside"
        plain = await node.output(tries, volume, name="plain", mounts=mount(readOnly=True))
        assert plain == "not here"
        for mode in ("Enabled", "IfPossible"):
            mounts = mount(readOnly=True, recursiveReadOnly=mode)
            pod = await node.wait_until_succeeded(await node.start(tries, volume, name=mode.lower(), mounts=mounts))
            assert node.output_of(pod) == "not here\nnor inside"
            volume_mount_statuses = pod.status.containerStatuses[0].volumeMounts
            assert [
                (volume_mount_status.name, volume_mount_status.recursiveReadOnly)
                for volume_mount_status in volume_mount_statuses
            ] == [("v", "Enabled")]


async def check_image_sub_paths(node: RealNode) -> None:
    registry = FakeRegistry()
    registry.add("boat", "1", MadeImage({"etc": None, "etc/name": b"sampan", "top": b"deck"}))
    async with serving(registry) as address:
        volume = {"name": "v", "image": {"reference": f"{address}/boat:1", "pullPolicy": "IfNotPresent"}}
        assert await node.output("cat /v/name; ls /v", volume, mounts=mount(subPath="etc")) == "sampanname"
        await node.start("true", volume, name="lacks", mounts=mount(subPath="nowhere"))
        assert "image sub path 'nowhere'" in await event_message(node, "lacks", "Failed")
        never = {"name": "v", "image": {"reference": f"{address}/other:1", "pullPolicy": "Never"}}
        await node.start("true", never, name="never", mounts=mount())
        text = f'Container image "{address}/other:1" is not present with pull policy of Never'
        assert await event_message(node, "never", "ErrImageNeverPull") == text


async def event_message(node: RealNode, name: str, reason: str) -> str:
    selection = Selection(namespace=node.namespace, fields=f"reason={reason},involvedObject.name={name}")
    async with asyncio.timeout(60), node.client.for_kind(Event).watch(selection) as events:
        async for batch in events:
            for event in batch:
                if event.type == "ADDED":
                    return str(event.object.message)
    raise AssertionError("the watch has ended")


async def test_mount_propagation_recursive_read_only_and_image_sub_paths() -> None:
    if reason := missing_requirement():
        pytest.skip(reason)

    async with asyncio.timeout(120), Cluster(nodes=1, runtime="oci", components=COMPONENTS) as cluster:
        home = cluster.kubeconfig.parent
        async with asyncio.TaskGroup() as group:
            for number, scenario in enumerate(
                (check_mount_propagation, check_recursive_read_only, check_image_sub_paths)
            ):
                group.create_task(run_scenario(cluster, f"test-{number}", scenario))
    assert kernel.mounts_below(home) == []
