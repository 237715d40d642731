"""node-route-controller, with a fake cloud provider."""

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Node
from sampan.controllers.cloud import CloudRoute
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.nodes.cidr_sets import network_of
from sampan.controllers.nodes.routes import plan
from sampan.testing.cloud import MemoryCloud
from tests.controllers.cluster import cluster
from tests.controllers.nodes.fleet import Fleet, node_value

LIFECYCLE, ROUTES, IPAM = "cloud-node-lifecycle-controller", "node-route-controller", "node-ipam-controller"


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
def test_routes_to_create_and_to_delete(routes: list[CloudRoute], create: list[str], delete: list[str]) -> None:
    nodes = [node("a", "10.0.0.0/24"), node("b", "10.0.1.0/24"), node("c")]
    new_plan = plan(nodes, routes, [network_of("10.0.0.0/16")])
    assert [f"{route.node} {route.cidr}" for route in new_plan.create] == create
    assert [route.name for route in new_plan.delete] == delete


async def test_every_pod_cidr_has_a_route() -> None:
    cloud = MemoryCloud()
    config = ControllerConfig(cloud=cloud, allocate_node_cidrs=True, cluster_cidr=["10.0.0.0/16", "fd00::/56"])
    async with cluster() as c, c.running(IPAM, ROUTES, config=config):
        fleet = Fleet(c)
        await fleet.add("a")
        await fleet.add("b")
        cloud.failing["routes.create"] = "quota"
        await c.clock.advance(11)
        condition = next(
            condition
            for condition in (await fleet.node("a")).status.conditions
            if condition.type == "NetworkUnavailable"
        )
        assert (condition.status, condition.reason, condition.message) == (
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
        condition = next(
            condition
            for condition in (await fleet.node("a")).status.conditions
            if condition.type == "NetworkUnavailable"
        )
        assert (condition.status, condition.reason, condition.message) == (
            "False",
            "RouteCreated",
            "RouteController created a route",
        )
        before = await c.revision()
        await c.clock.advance(60)
        assert await c.revision() == before
        await c.client.for_kind(Node).delete("a")
        await c.clock.advance(11)
        assert {route.node for route in cloud.route_table} == {"b"}
