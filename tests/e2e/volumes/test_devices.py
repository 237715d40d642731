"""Devices on a real node: of a plug-in, and of a driver of dynamic resources; each seen by a container."""

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import Node, Pod
from sampan.api.types.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import NODE, why_not
from tests.e2e.volumes.real_node_cluster import Scene, output_of
from tests.kubelet.devices.device_plugin import BOAT, BoatPlugin
from tests.kubelet.devices.dra_driver import NAME, BoatDriver

KIND = f"sampan-test-{os.getpid()}.example.com/boat"
LOOK = "echo $BOATS $(stat -c %t:%T /dev/boat); echo x > /dev/boat && echo afloat"


@contextmanager
def described() -> Iterator[None]:
    """What the vendor of the boats has on the machine."""
    edits = {"env": ["BOATS=dynamic"], "deviceNodes": [{"path": "/dev/boat", "hostPath": "/dev/null"}]}
    content = {"cdiVersion": "0.6.0", "kind": KIND, "devices": [{"name": "boat", "containerEdits": edits}]}
    file = Path("/var/run/cdi") / f"{KIND.replace('/', '-')}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content))
    try:
        yield
    finally:
        file.unlink()


def boats(count: int) -> dict[str, dict[str, dict[str, str]]]:
    return {"resources": {"limits": {BOAT: str(count)}}}


async def by_number(scene: Scene) -> None:
    """The node counts them, the scheduler sees that, the container has one, and the next pod has it after it."""
    device = {"container_path": "/dev/boat", "host_path": "/dev/null", "permissions": "rw"}
    plugin = BoatPlugin(
        scene.root / "device-plugins", container_response={"devices": [device]}, devices={"one": "Healthy"}
    )
    async with plugin.listen():
        await plugin.register()
        await scene.when(Node, NODE, lambda node: node.status.allocatable.get(BOAT) == "1")
        until = "; until [ -e /dev/shm/end ]; do sleep 0.1; done"
        await scene.pod("first", LOOK + until, container=boats(1), terminationGracePeriodSeconds=1)
        pod = await scene.phase("first", "Running")
        [status] = pod.status.containerStatuses[0].allocatedResourcesStatus
        assert (status.name, [(resource.resourceID, resource.health) for resource in status.resources]) == (
            BOAT,
            [("one", "Healthy")],
        )
        plugin.change(one="Unhealthy")
        await scene.when(Node, NODE, lambda node: node.status.allocatable.get(BOAT) == "0")
        await scene.when(Pod, "first", _is_ill, "default")
        plugin.change(one="Healthy")
        await scene.when(Node, NODE, lambda node: node.status.allocatable.get(BOAT) == "1")
        await scene.client.of(Pod).delete("first", "default")
        await scene.pod("second", LOOK, container=boats(1))
        second = await scene.phase("second", "Succeeded")
        assert output_of(second) == "one 1:3\nafloat"
        plugin.fault = "no more today"
        await scene.pod("third", LOOK, container=boats(1))
        third = await scene.phase("third", "Failed")
        message = "Allocate failed due to rpc error: code = Internal desc = no more today, which is unexpected"
        assert (third.status.reason, third.status.message) == (
            "UnexpectedAdmissionError",
            f"Pod was rejected: {message}",
        )


def _is_ill(pod: Pod) -> bool:
    [status] = pod.status.containerStatuses[0].allocatedResourcesStatus
    return [resource.health for resource in status.resources] == ["Unhealthy"]


async def by_claim(scene: Scene) -> None:
    """Allocated by the scheduler, prepared by the driver, described by its vendor."""
    driver = BoatDriver(cdi_name=f"{KIND}=boat")
    async with driver.listen(scene.root / "plugins_registry"):
        await driver.registered.wait()
        pool = {"name": "harbour", "resourceSliceCount": 1}
        slice = {"driver": NAME, "nodeName": NODE, "pool": pool, "devices": [{"name": "boat"}]}
        await scene.create(ResourceSlice, "harbour", spec=slice)
        selector = {"cel": {"expression": f'device.driver == "{NAME}"'}}
        await scene.create(DeviceClass, "boats", spec={"selectors": [selector]})
        request = {"name": "one", "exactly": {"deviceClassName": "boats"}}
        await scene.create(ResourceClaimTemplate, "t", "default", spec={"spec": {"devices": {"requests": [request]}}})
        await scene.pod(
            "claims",
            LOOK,
            container={"resources": {"claims": [{"name": "boat"}]}},
            resourceClaims=[{"name": "boat", "resourceClaimTemplateName": "t"}],
        )
        pod = await scene.phase("claims", "Succeeded")
        assert output_of(pod) == "dynamic 1:3\nafloat"
        name = pod.status.resourceClaimStatuses[0].resourceClaimName or ""
        assert driver.calls == [("prepare", [name]), ("unprepare", [name])]
        await scene.client.of(Pod).delete("claims", "default")
        await scene.gone(ResourceClaim, name, "default")


async def test_devices() -> None:
    if reason := why_not():
        pytest.skip(reason)

    async with asyncio.timeout(150), Cluster(nodes=1, runtime="oci") as cluster:
        scene = Scene(cluster)
        await scene.when(
            Node, NODE, lambda node: any(condition.status == "True" for condition in node.status.conditions)
        )
        with described():
            async with asyncio.TaskGroup() as group:
                group.create_task(by_number(scene))
                group.create_task(by_claim(scene))
