"""Devices of a device plugin and of a DRA driver on a real node, as containers see them."""

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
from tests.e2e.conformance.storage.real_node import NODE, missing_requirement
from tests.e2e.volumes.real_node_cluster import RealNodeCluster, output_of
from tests.kubelet.devices.device_plugin import BOAT, BoatPlugin
from tests.kubelet.devices.dra_driver import NAME, BoatDriver

KIND = f"sampan-test-{os.getpid()}.example.com/boat"
LOOK = "echo $BOATS $(stat -c %t:%T /dev/boat); echo x > /dev/boat && echo afloat"


@contextmanager
def cdi_file() -> Iterator[None]:
    """Write the CDI file of the device vendor."""
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


async def check_device_plugin(real_node: RealNodeCluster) -> None:
    """The node reports the device, the scheduler and the container use it, and the next pod gets it afterwards."""
    device = {"container_path": "/dev/boat", "host_path": "/dev/null", "permissions": "rw"}
    plugin = BoatPlugin(
        real_node.root / "device-plugins", container_response={"devices": [device]}, devices={"one": "Healthy"}
    )
    async with plugin.listen():
        await plugin.register()
        await real_node.wait_for(Node, NODE, lambda node: node.status.allocatable.get(BOAT) == "1")
        until = "; until [ -e /dev/shm/end ]; do sleep 0.1; done"
        await real_node.create_pod("first", LOOK + until, container=boats(1), terminationGracePeriodSeconds=1)
        pod = await real_node.wait_for_phase("first", "Running")
        [status] = pod.status.containerStatuses[0].allocatedResourcesStatus
        assert (status.name, [(resource.resourceID, resource.health) for resource in status.resources]) == (
            BOAT,
            [("one", "Healthy")],
        )
        plugin.change(one="Unhealthy")
        await real_node.wait_for(Node, NODE, lambda node: node.status.allocatable.get(BOAT) == "0")
        await real_node.wait_for(Pod, "first", _is_unhealthy, "default")
        plugin.change(one="Healthy")
        await real_node.wait_for(Node, NODE, lambda node: node.status.allocatable.get(BOAT) == "1")
        await real_node.client.for_kind(Pod).delete("first", "default")
        await real_node.create_pod("second", LOOK, container=boats(1))
        second = await real_node.wait_for_phase("second", "Succeeded")
        assert output_of(second) == "one 1:3\nafloat"
        plugin.fault = "no more today"
        await real_node.create_pod("third", LOOK, container=boats(1))
        third = await real_node.wait_for_phase("third", "Failed")
        message = "Allocate failed due to rpc error: code = Internal desc = no more today, which is unexpected"
        assert (third.status.reason, third.status.message) == (
            "UnexpectedAdmissionError",
            f"Pod was rejected: {message}",
        )


def _is_unhealthy(pod: Pod) -> bool:
    [status] = pod.status.containerStatuses[0].allocatedResourcesStatus
    return [resource.health for resource in status.resources] == ["Unhealthy"]


async def check_dra_driver(real_node: RealNodeCluster) -> None:
    """A claim is allocated by the scheduler, prepared by the driver, and applied to the container with CDI."""
    driver = BoatDriver(cdi_name=f"{KIND}=boat")
    async with driver.listen(real_node.root / "plugins_registry"):
        await driver.registered.wait()
        pool = {"name": "harbour", "resourceSliceCount": 1}
        slice = {"driver": NAME, "nodeName": NODE, "pool": pool, "devices": [{"name": "boat"}]}
        await real_node.create(ResourceSlice, "harbour", spec=slice)
        selector = {"cel": {"expression": f'device.driver == "{NAME}"'}}
        await real_node.create(DeviceClass, "boats", spec={"selectors": [selector]})
        request = {"name": "one", "exactly": {"deviceClassName": "boats"}}
        await real_node.create(
            ResourceClaimTemplate, "t", "default", spec={"spec": {"devices": {"requests": [request]}}}
        )
        await real_node.create_pod(
            "claims",
            LOOK,
            container={"resources": {"claims": [{"name": "boat"}]}},
            resourceClaims=[{"name": "boat", "resourceClaimTemplateName": "t"}],
        )
        pod = await real_node.wait_for_phase("claims", "Succeeded")
        assert output_of(pod) == "dynamic 1:3\nafloat"
        name = pod.status.resourceClaimStatuses[0].resourceClaimName or ""
        assert driver.calls == [("prepare", [name]), ("unprepare", [name])]
        await real_node.client.for_kind(Pod).delete("claims", "default")
        await real_node.wait_until_gone(ResourceClaim, name, "default")


async def test_device_plugin_and_dra_devices_reach_containers() -> None:
    if reason := missing_requirement():
        pytest.skip(reason)

    async with asyncio.timeout(150), Cluster(nodes=1, runtime="oci") as cluster:
        real_node = RealNodeCluster(cluster)
        await real_node.wait_for(
            Node, NODE, lambda node: any(condition.status == "True" for condition in node.status.conditions)
        )
        with cdi_file():
            async with asyncio.TaskGroup() as group:
                group.create_task(check_device_plugin(real_node))
                group.create_task(check_dra_driver(real_node))
