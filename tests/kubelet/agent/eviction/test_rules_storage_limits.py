"""Pods and volumes that use more of the disk of the node than their limits allow."""

from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Container, Pod
from sampan.kubelet.agent.eviction.rules import has_storage_limit, storage_excess
from sampan.kubelet.volumes.usage import VolumeUsage
from sampan.runtimes.contract import ContainerUsage

KIB = 1024


def pod(*limits: str, **volume: Any) -> Pod:
    containers = [
        {"name": f"c{number}", "image": "i", "resources": {"limits": {"ephemeral-storage": text} if text else {}}}
        for number, text in enumerate(limits)
    ]
    spec = {"containers": containers, "volumes": [{"name": "v", **volume}] if volume else []}
    return json.from_value({"metadata": {"name": "p", "uid": "u"}, "spec": spec}, Pod)


def usage(name: str, disk: int, log: int = 0) -> ContainerUsage:
    return ContainerUsage(name, 0, 0, disk_bytes=disk * KIB, log_bytes=log * KIB)


def volume(size: int) -> VolumeUsage:
    return VolumeUsage(
        name="v",
        used_bytes=size * KIB,
        capacity_bytes=0,
        available_bytes=0,
        used_inodes=0,
        inodes=0,
        free_inodes=0,
    )


POD_EXCESS = "Pod ephemeral local storage usage exceeds the total limit of containers {}. "
CONTAINER_EXCESS = 'Container c0 exceeded its local ephemeral storage limit "{}". '


@pytest.mark.parametrize(
    ("pod", "usages", "volumes", "message"),
    [
        (pod("10Ki", "20Ki"), [usage("c0", 5, 4), usage("c1", 9)], [], None),
        (pod("10Ki", "20Ki"), [usage("c0", 5, 6), usage("c1", 9)], [], CONTAINER_EXCESS.format("10Ki")),
        (pod("10Ki", "20Ki"), [usage("c0", 15), usage("c1", 20)], [], POD_EXCESS.format("30Ki")),
        (pod("10Ki", emptyDir={}), [usage("c0", 5)], [volume(6)], POD_EXCESS.format("10Ki")),
        (pod("10Ki", emptyDir={"medium": "Memory"}), [usage("c0", 5)], [volume(6)], None),
        (pod("10Ki", configMap={"name": "m"}), [usage("c0", 5)], [volume(6)], POD_EXCESS.format("10Ki")),
        (pod("10Ki", hostPath={"path": "/"}), [usage("c0", 5)], [volume(6)], None),
        (pod(""), [usage("c0", 1 << 30)], [], None),
    ],
)
def test_storage_excess_message(
    pod: Pod, usages: list[ContainerUsage], volumes: list[VolumeUsage], message: str | None
) -> None:
    assert storage_excess(pod, usages, volumes) == message


def test_the_limit_of_a_sidecar_counts() -> None:
    limits = {"limits": {"ephemeral-storage": "1Ki"}}
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always", "resources": limits}
    whole = pod("10Ki")
    whole.spec.initContainers = [json.from_value(sidecar, Container)]
    text = 'Container s exceeded its local ephemeral storage limit "1Ki". '
    assert storage_excess(whole, [usage("s", 2)], []) == text


def test_has_storage_limit() -> None:
    assert has_storage_limit(pod("", "1Ki"))
    assert not has_storage_limit(pod("", ""))
