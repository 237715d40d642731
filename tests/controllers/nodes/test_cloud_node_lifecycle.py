"""cloud-node-lifecycle-controller, with a fake cloud provider."""

import pytest

from sampan.controllers.descriptor import ControllerConfig
from sampan.machinery import errors
from sampan.testing.cloud import MemoryCloud
from tests.controllers.cluster import cluster
from tests.controllers.nodes.fleet import Fleet

LIFECYCLE, ROUTES, IPAM = "cloud-node-lifecycle-controller", "node-route-controller", "node-ipam-controller"
SHUTDOWN = ("node.cloudprovider.kubernetes.io/shutdown", "NoSchedule")


async def test_node_without_instance_is_deleted_and_shut_down_node_is_tainted() -> None:
    cloud = MemoryCloud()
    async with cluster() as c, c.running(LIFECYCLE, config=ControllerConfig(cloud=cloud)):
        fleet = Fleet(c)
        for name in ("well", "gone", "silent", "down"):
            await fleet.add(name)
        cloud.deleted_instances = {"well", "gone"}
        cloud.shut_down = {"down"}
        await c.clock.advance(11)
        assert cloud.calls["instances.exists"] == 0, "the cloud provider was asked about ready nodes"
        for name in ("gone", "silent", "down"):
            await fleet.post(name, "Unknown")
        await c.clock.advance(6)
        with pytest.raises(errors.NotFound):
            await fleet.node("gone")
        assert await fleet.events("DeletingNode") == [
            ("gone", "DeletingNode", "Deleting node gone because it does not exist in the cloud provider")
        ]
        assert SHUTDOWN not in await fleet.taints("silent")
        assert SHUTDOWN in await fleet.taints("down")
        before = await c.revision()
        await c.clock.advance(60)
        assert await c.revision() == before
        await fleet.post("down")
        await c.clock.advance(6)
        assert SHUTDOWN not in await fleet.taints("down")


async def test_node_is_kept_while_the_cloud_provider_fails() -> None:
    cloud = MemoryCloud()
    cloud.failing["instances.exists"] = "no answer"
    cloud.deleted_instances = {"n"}
    async with cluster() as c, c.running(LIFECYCLE, config=ControllerConfig(cloud=cloud)):
        fleet = Fleet(c)
        await fleet.add("n", ready="False")
        await c.clock.advance(60)
        assert (await fleet.node("n")).metadata.name == "n"
        cloud.failing.clear()
        await c.clock.advance(6)
        with pytest.raises(errors.NotFound):
            await fleet.node("n")


async def test_cloud_controllers_do_not_run_without_a_cloud_provider() -> None:
    async with cluster() as c, c.running(LIFECYCLE, ROUTES, "service-lb-controller") as manager:
        assert manager.runners == []
