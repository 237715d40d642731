"""cloud-node-lifecycle-controller and node-route-controller, with a cloud in memory."""

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Node
from sampan.controllers.cloud import CloudRoute
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.nodes.cidr_sets import network_of
from sampan.controllers.nodes.routes import plan
from sampan.machinery import errors
from sampan.testing.cloud import MemoryCloud
from tests.controllers.cluster import cluster
from tests.controllers.nodes.fleet import Fleet, node_value

LIFECYCLE, ROUTES, IPAM = "cloud-node-lifecycle-controller", "node-route-controller", "node-ipam-controller"
SHUTDOWN = ("node.cloudprovider.kubernetes.io/shutdown", "NoSchedule")


async def test_a_node_whose_machine_is_gone_is_deleted() -> None:
    cloud = MemoryCloud()
    async with cluster() as c, c.running(LIFECYCLE, config=ControllerConfig(cloud=cloud)):
        fleet = Fleet(c)
        for name in ("well", "gone", "silent", "down"):
            await fleet.add(name)
        cloud.deleted_instances = {"well", "gone"}
        cloud.shut_down = {"down"}
        await c.clock.advance(11)
        assert cloud.calls["instances.exists"] == 0, "those that are ready exist"
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


async def test_a_provider_that_does_not_answer_deletes_nothing() -> None:
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


async def test_without_a_provider_there_is_nothing_to_do() -> None:
    async with cluster() as c, c.running(LIFECYCLE, ROUTES, "service-lb-controller") as manager:
        assert manager.runners == []


def node(name: str, *cidrs: str) -> Node:
    return codec.from_value(node_value(name, podCIDRs=list(cidrs)), Node)


@pytest.mark.parametrize(
    ("routes", "create", "delete"),
    [
        ([], ["a 10.0.0.0/24", "b 10.0.1.0/24"], []),
        ([CloudRoute(name="1", node="a", cidr="10.0.0.0/24")], ["b 10.0.1.0/24"], []),
        ([CloudRoute(name="1", node="a", cidr="10.0.9.0/24")], ["a 10.0.0.0/24", "b 10.0.1.0/24"], ["1"]),
        ([CloudRoute(name="1", node="", cidr="192.168.0.0/24")], ["a 10.0.0.0/24", "b 10.0.1.0/24"], []),
        (
            [CloudRoute(name="1", node="a", cidr="10.0.0.0/24", is_blackhole=True)],
            ["a 10.0.0.0/24", "b 10.0.1.0/24"],
            ["1"],
        ),
    ],
)
def test_which_routes_come_and_go(routes: list[CloudRoute], create: list[str], delete: list[str]) -> None:
    nodes = [node("a", "10.0.0.0/24"), node("b", "10.0.1.0/24"), node("c")]
    new_plan = plan(nodes, routes, [network_of("10.0.0.0/16")])
    assert [f"{route.node} {route.cidr}" for route in new_plan.create] == create
    assert [route.name for route in new_plan.delete] == delete


async def test_every_range_has_a_route() -> None:
    cloud = MemoryCloud()
    config = ControllerConfig(cloud=cloud, allocate_node_cidrs=True, cluster_cidr=["10.0.0.0/16", "fd00::/56"])
    async with cluster() as c, c.running(IPAM, ROUTES, config=config):
        fleet = Fleet(c)
        await fleet.add("a")
        await fleet.add("b")
        cloud.failing["routes.create"] = "quota"
        await c.clock.advance(11)
        balancer = next(
            condition
            for condition in (await fleet.node("a")).status.conditions
            if condition.type == "NetworkUnavailable"
        )
        assert (balancer.status, balancer.reason, balancer.message) == (
            "True",
            "NoRouteCreated",
            "RouteController failed to create a route",
        )
        assert "Could not create route" in (await fleet.events("FailedToCreateRoute"))[0][2]
        cloud.failing.clear()
        await c.clock.advance(11)
        assert sorted((route.node, route.cidr) for route in cloud.route_table) == [
            ("a", "10.0.0.0/24"),
            ("a", "fd00::/64"),
            ("b", "10.0.1.0/24"),
            ("b", "fd00:0:0:1::/64"),
        ]
        balancer = next(
            condition
            for condition in (await fleet.node("a")).status.conditions
            if condition.type == "NetworkUnavailable"
        )
        assert (balancer.status, balancer.reason, balancer.message) == (
            "False",
            "RouteCreated",
            "RouteController created a route",
        )
        before = await c.revision()
        await c.clock.advance(60)
        assert await c.revision() == before
        await c.client.of(Node).delete("a")
        await c.clock.advance(11)
        assert {route.node for route in cloud.route_table} == {"b"}
