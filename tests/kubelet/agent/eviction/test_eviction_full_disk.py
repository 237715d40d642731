"""A real node whose disks run full; the disks are small file systems in memory."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Event, Node, Pod
from sampan.kubelet.agent.image_pull_records import ImagePullRecords
from sampan.kubelet.agent.kubelet import Kubelet
from sampan.machinery.client import Client
from sampan.runtimes import kernel
from sampan.runtimes.images import ImageStore
from sampan.runtimes.images.archives import load
from sampan.testing import Cluster
from tests.e2e.chaos.interruptible_transport import Line
from tests.eventually import eventually
from tests.kubelet.agent.real_node import NAME, phase, real_node
from tests.runtimes.images.builders import MadeImage, docker_archive
from tests.skips import requires

MIB = 1 << 20
pytestmark = requires("root", "crun or runc")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory with one disk for the kubelet's data, and one for images."""
    disks = [tmp_path / name for name in ("kubelet", "images")]
    for disk in disks:
        disk.mkdir()
        kernel.mount("tmpfs", disk, "tmpfs", 0, "size=64m,mode=755")
    try:
        yield tmp_path
    finally:
        for disk in disks:
            kernel.unmount(disk)


def pod(name: str, *commands: str, limits: tuple[str, ...] = (), volume: dict[str, Any] | None = None) -> Pod:
    mounts = [{"name": "v", "mountPath": "/v"}] if volume is not None else []
    containers = [
        {
            "name": f"c{number}",
            "image": "sampan.local/host",
            "command": ["sh", "-c", command],
            "resources": {"limits": {"ephemeral-storage": limits[number]} if limits else {}},
            "volumeMounts": mounts,
        }
        for number, command in enumerate(commands)
    ]
    spec = {
        "nodeName": NAME,
        "hostNetwork": True,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": containers,
        "volumes": [{"name": "v", **volume}] if volume is not None else [],
    }
    return json.from_value({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, Pod)


async def wait_for_eviction(kubelet: Kubelet, name: str) -> Any:
    await eventually(lambda: phase(kubelet, name) == "Failed")
    pod = kubelet.find("default", name)
    assert pod is not None
    assert pod.status.reason == "Evicted"
    return pod.status


async def wait_for_disk_pressure(client: Client, expected: str) -> None:
    """Wait until the condition DiskPressure of the node has that status."""

    async def holds() -> bool:
        node = await client.for_kind(Node).get(NAME)
        return [row.status for row in node.status.conditions if row.type == "DiskPressure"] == [expected]

    await eventually(holds)


async def wait_for_events(client: Client, last: str) -> dict[str, str]:
    """Return the messages of events by reason, once there is an event with the reason `last`."""
    messages: dict[str, str] = {}

    async def is_complete() -> bool:
        messages.update({event.reason: event.message for event in (await client.for_kind(Event).list()).items})
        return last in messages

    await eventually(is_complete)
    return messages


async def check_storage_limits(client: Client, kubelet: Kubelet) -> None:
    write_log = "head -c 200000 /dev/zero | tr '\\0' a; sleep 1000"
    await client.for_kind(Pod).create(pod("chatty", write_log, "sleep 1000", limits=("64Ki", "10Mi")))
    await client.for_kind(Pod).create(
        pod("keeper", "head -c 3000000 /dev/zero > /v/f; sleep 1000", limits=("1Mi",), volume={"emptyDir": {}})
    )
    status = await wait_for_eviction(kubelet, "chatty")
    assert status.message == 'Container c0 exceeded its local ephemeral storage limit "64Ki". '
    assert "DisruptionTarget" not in [condition.type for condition in status.conditions]
    status = await wait_for_eviction(kubelet, "keeper")
    assert status.message == "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "


async def check_disk_pressure(client: Client, kubelet: Kubelet) -> None:
    await client.for_kind(Pod).create(pod("done", "true"))
    await eventually(lambda: phase(kubelet, "done") == "Succeeded")
    done = kubelet.find("default", "done")
    assert done is not None
    assert done.metadata.uid in kubelet.runtime.list_pod_uids()
    await client.for_kind(Pod).create(pod("modest", "sleep 1000"))
    await eventually(lambda: phase(kubelet, "modest") == "Running")
    await client.for_kind(Pod).create(
        pod("hoarder", "head -c 50000000 /dev/zero > /v/f; sleep 1000", volume={"emptyDir": {}})
    )
    status = await wait_for_eviction(kubelet, "hoarder")
    assert status.message.startswith("The node was low on resource: ephemeral-storage. Threshold quantity: 24Mi, avai")
    assert "DisruptionTarget" in [condition.type for condition in status.conditions]
    assert phase(kubelet, "modest") == "Running"
    await wait_for_disk_pressure(client, "False")
    messages = await wait_for_events(client, "NodeHasNoDiskPressure")
    assert messages["EvictionThresholdMet"] == "Attempting to reclaim ephemeral-storage"
    assert "NodeHasDiskPressure" in messages
    event = next(
        obj
        for obj in (await client.for_kind(Event).list()).items
        if obj.involvedObject.name == "hoarder" and obj.reason == "Evicted"
    )
    assert event.metadata.annotations["starved_resource"] == "ephemeral-storage"


async def check_dead_containers_are_removed(client: Client, kubelet: Kubelet) -> None:
    done = kubelet.find("default", "done")
    assert done is not None
    assert done.status.phase == "Succeeded"
    assert done.metadata.uid not in kubelet.runtime.list_pod_uids()


async def test_pods_above_storage_limits_are_evicted_and_disk_pressure_is_cleared(directory: Path) -> None:
    """The kubelet knows no separate image disk. Dead containers are removed before pods are evicted."""

    line = Line()
    async with Cluster(components=("apiserver", "controllers")) as cluster:
        line.open(cluster.assembly.transport)
        async with real_node(
            directory,
            line,
            runtime="oci",
            eviction_hard={"nodefs.available": "24Mi"},
            eviction_period_s=0.2,
            pressure_transition_s=1.0,
        ) as kubelet:
            await kubelet.ready.wait()
            for check in (check_storage_limits, check_disk_pressure, check_dead_containers_are_removed):
                await check(cluster.client, kubelet)
            await line.cut()


def test_unused_images_are_removed_when_the_image_disk_fills_up(directory: Path) -> None:
    large = MadeImage({"large": Random(1).randbytes(40 * MIB)}, pack=lambda data: data)
    load(ImageStore(directory / "images"), docker_archive(directory / "a.tar", large, "large:1"), now=1)
    pulled = ImagePullRecords(directory / "kubelet")
    pulled.add_pull(large.id, "large:1", [], 1)

    async def main() -> None:
        line = Line()
        async with real_node(
            directory,
            line,
            runtime="oci",
            images=directory / "images",
            image_gc_high=50,
            image_gc_low=40,
            image_min_age_s=0.0,
        ) as kubelet:
            await kubelet.started.wait()

            async def is_removed() -> bool:
                return await kubelet.runtime.image("large:1") is None

            await eventually(is_removed)
            await eventually(lambda: pulled.read(large.id) is None)  # the record is removed with the image

    asyncio.run(main())
    filesystem = os.statvfs(directory / "images")
    assert filesystem.f_bavail * filesystem.f_frsize > 50 * MIB
