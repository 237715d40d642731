"""Embedded load balancers: addresses, placement, and routes with real packets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import (
    LoadBalancerIngress,
    LoadBalancerStatus,
    Node,
    NodeAddress,
    NodeCondition,
    NodeStatus,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.linux.network_namespace import NetworkNamespace, run_in_network
from sampan.host.netlink.routing import open_route_socket
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName
from sampan.network.http_port import bind_socket
from sampan.network.load_balancer.addresses import (
    NoLoadBalancerAddress,
    addresses_in,
    choose_pool_addresses,
    choose_shared_addresses,
    is_in_pool,
    pool_cidr,
    pool_of,
)
from sampan.network.load_balancer.provider import AddressRoutes, EmbeddedLoadBalancers, LoadBalancerError, NoRoutes
from sampan.network.load_balancer.routes import LoadBalancerRoutes, address_gateways, gateways, route_addresses
from sampan.network.proxy.services import IPV4, service_ports
from tests.controllers.cluster import cluster
from tests.eventually import eventually
from tests.network.pods.lab import OUTSIDE_IP, Lab, needs_network
from tests.network.proxy.objects import endpoint, endpoint_slice, port, service
from tests.ports import free_port

CIDR, CIDR6 = "10.89.0.0/24", "fd00:1::/64"


def load_balanced(
    name: str, *ingress: str, families: Sequence[str] = ("IPv4",), number: int = 80, **spec: object
) -> Service:
    return service(name, port(number), type="LoadBalancer", ingress=ingress, ipFamilies=list(families), **spec)  # type: ignore[arg-type]


def node(name: str, *addresses: str, ready: str = "True") -> Node:
    return Node(
        metadata=ObjectMeta(name=name),
        status=NodeStatus(
            addresses=[NodeAddress(type="InternalIP", address=address) for address in addresses],
            conditions=[NodeCondition(type="Ready", status=ready)],
        ),
    )


class TestAddresses:
    def test_each_service_has_an_address_of_its_own(self) -> None:
        first = load_balanced("a", *choose_pool_addresses(load_balanced("a"), [], [CIDR]))
        second = choose_pool_addresses(load_balanced("b"), [first], [CIDR])
        assert (choose_pool_addresses(load_balanced("a"), [], [CIDR]), second) == (["10.89.0.254"], ["10.89.0.253"])
        assert choose_pool_addresses(load_balanced("b", *second), [first], [CIDR]) == second, (
            "the service keeps its address"
        )

    def test_addresses_match_the_ip_families_of_the_service(self) -> None:
        dual = choose_pool_addresses(load_balanced("a", families=["IPv6", "IPv4"]), [], [CIDR, CIDR6])
        assert dual == ["fd00:1::ffff:ffff:ffff:fffe", "10.89.0.254"]
        with pytest.raises(NoLoadBalancerAddress, match="no addresses of IPv6"):
            choose_pool_addresses(load_balanced("a", families=["IPv6"]), [], [CIDR])

    def test_load_balancer_ip_is_used_if_free_and_in_the_pool(self) -> None:
        assert choose_pool_addresses(load_balanced("a", loadBalancerIP="10.89.0.200"), [], [CIDR]) == ["10.89.0.200"]
        with pytest.raises(NoLoadBalancerAddress, match="belongs to another service"):
            choose_pool_addresses(
                load_balanced("a", loadBalancerIP="10.89.0.200"), [load_balanced("b", "10.89.0.200")], [CIDR]
            )
        with pytest.raises(NoLoadBalancerAddress, match=r"is not between 10\.89\.0\.128 and 10\.89\.0\.254"):
            choose_pool_addresses(load_balanced("a", loadBalancerIP="10.89.0.2"), [], [CIDR])

    def test_allocation_fails_if_the_pool_is_full(self) -> None:
        pool = list(pool_of(CIDR))
        assert len(pool) == 127
        assert all(is_in_pool(address, CIDR) for address in pool)
        assert (pool_cidr(CIDR), pool_cidr(CIDR6)) == ("10.89.0.128/25", "fd00:1::ffff:ffff:ffff:f000/116")
        others = [load_balanced(f"s{number}", address) for number, address in enumerate(pool)]
        with pytest.raises(NoLoadBalancerAddress, match=r"all addresses of 10\.89\.0\.0/24 are in use"):
            choose_pool_addresses(load_balanced("a"), others, [CIDR])

    def test_services_with_different_ports_share_the_address_of_the_machine(self) -> None:
        machine = ["192.0.2.1", "2001:db8::1"]
        assert choose_shared_addresses(load_balanced("a"), [], machine) == machine[:1]
        assert (
            choose_shared_addresses(load_balanced("a", number=81), [load_balanced("b", "192.0.2.1")], machine)
            == machine[:1]
        )
        with pytest.raises(NoLoadBalancerAddress, match="port 80/TCP of the machine belongs to the service default/b"):
            choose_shared_addresses(load_balanced("a"), [load_balanced("b", "192.0.2.1")], machine)


class TestPlacement:
    NODES = (node("a", "10.89.0.2", "fd00:1::2"), node("b", "10.89.0.3"), node("other-machine", "192.0.2.9"))

    def test_address_moves_when_its_node_is_not_ready(self) -> None:
        services = [load_balanced(f"s{number}", f"10.89.0.{254 - number}") for number in range(20)]
        before = gateways(services, self.NODES, {}, [CIDR])
        assert set(before.values()) == {"10.89.0.2", "10.89.0.3"}
        not_ready = node("b", "10.89.0.3", ready="Unknown")
        after = gateways(services, [self.NODES[0], not_ready], {}, [CIDR])
        assert set(after.values()) == {"10.89.0.2"}
        assert gateways(services, [not_ready], {}, [CIDR]) == {}

    def test_only_addresses_of_a_removed_node_move(self) -> None:
        nodes = [*self.NODES, node("c", "10.89.0.4")]
        services = [load_balanced(f"s{number}", f"10.89.0.{254 - number}") for number in range(20)]
        before, after = gateways(services, nodes, {}, [CIDR]), gateways(services, nodes[:3], {}, [CIDR])
        assert all(after[address] == gateway for address, gateway in before.items() if gateway != "10.89.0.4")

    def test_external_traffic_policy_local_needs_an_endpoint_on_the_node(self) -> None:
        local = load_balanced("web", "10.89.0.254", externalTrafficPolicy="Local")
        slices = {NamespacedName("default", "web"): [endpoint_slice("web", endpoint("10.0.0.1", node="b"))]}
        assert gateways([local], self.NODES, slices, [CIDR]) == {"10.89.0.254": "10.89.0.3"}
        assert gateways([local], self.NODES, {}, [CIDR]) == {}

    def test_gateway_has_the_family_of_the_address_and_foreign_addresses_have_none(self) -> None:
        dual = load_balanced("web", "fd00:1::ffff:ffff:ffff:fffe", "203.0.113.1")
        assert gateways([dual], self.NODES, {}, [CIDR, CIDR6]) == {"fd00:1::ffff:ffff:ffff:fffe": "fd00:1::2"}


class SlowRoutes:
    """Creates no route until the test allows it."""

    def __init__(self) -> None:
        self.addresses: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self.is_allowed = asyncio.Event()

    async def ensure(self, service: Service) -> None:
        self.addresses.set_result(addresses_in(service))
        await self.is_allowed.wait()


class TestProvider:
    def provider(
        self, *services: Service, cidrs: Sequence[str] = (), routes: AddressRoutes | None = None
    ) -> EmbeddedLoadBalancers:
        async def list_services() -> list[Service]:
            return list(services)

        return EmbeddedLoadBalancers(
            services=list_services,
            node_cidrs=cidrs,
            machine_addresses=["127.0.0.1"],
            routes=routes or NoRoutes(),
        )

    async def test_ensure_returns_the_allocated_address_after_its_route_exists(self) -> None:
        routes, obj = SlowRoutes(), load_balanced("a")
        async with asyncio.TaskGroup() as group:
            ensuring = group.create_task(self.provider(cidrs=[CIDR], routes=routes).ensure(obj, []))
            assert await routes.addresses == ["10.89.0.254"]
            await asyncio.sleep(0)
            assert not ensuring.done()
            assert addresses_in(obj) == []
            routes.is_allowed.set()
        assert [ingress.ip for ingress in ensuring.result().ingress] == ["10.89.0.254"]

    async def test_allocated_address_is_reserved_before_it_is_in_the_status(self) -> None:
        first, second = load_balanced("a"), load_balanced("b")
        provider = self.provider(first, second, cidrs=[CIDR])
        statuses = [await provider.ensure(obj, []) for obj in (first, second)]
        assert [status.ingress[0].ip for status in statuses] == ["10.89.0.254", "10.89.0.253"]
        assert await provider.get(first) == statuses[0]
        await provider.delete(first)
        assert await provider.get(first) is None
        assert (await provider.ensure(load_balanced("c"), [])).ingress[0].ip == "10.89.0.254"

    async def test_ensure_fails_if_a_program_uses_the_port(self) -> None:
        number = free_port()
        message = f"port {number}/TCP of 127.0.0.1 is in use by a program"
        with bind_socket(NetworkNamespace(), "127.0.0.1", number), pytest.raises(LoadBalancerError, match=message):
            await self.provider().ensure(load_balanced("a", number=number), [])
        status = await self.provider().ensure(load_balanced("a", number=number), [])
        assert [ingress.ip for ingress in status.ingress] == ["127.0.0.1"]

    async def test_service_loses_its_load_balancer_ip_if_its_new_port_is_in_use(self) -> None:
        """The proxy reads the changed spec immediately, but serves only ports that are in the status."""
        number, program_port, service_port = free_port(), free_port(), free_port()
        other = load_balanced("b", number=service_port)
        provider = self.provider(other)
        for obj in (other, changed := load_balanced("a", number=number)):
            obj.status.loadBalancer = await provider.ensure(obj, [])
        assert [info.load_balancer_ips for info in service_ports(changed, (IPV4,))] == [("127.0.0.1",)]
        with bind_socket(NetworkNamespace(), "127.0.0.1", program_port):
            for used_port in (program_port, service_port):
                changed.spec.ports[0].port = used_port
                with pytest.raises(LoadBalancerError, match=f"port {used_port}/TCP"):
                    await provider.ensure(changed, [])
                assert [info.load_balancer_ips for info in service_ports(changed, (IPV4,))] == [()]


def routes_of(namespace: Path) -> dict[str, str]:
    def current() -> dict[str, str]:
        with open_route_socket() as netlink:
            return address_gateways(netlink, socket.if_nametoindex("up0"))

    return run_in_network(namespace, current)


@needs_network
def test_address_routes_are_added_replaced_and_removed(lab: Lab) -> None:
    apply = partial(route_addresses, "up0")
    for desired in ({"203.0.113.1": OUTSIDE_IP}, {"203.0.113.1": "192.0.2.3", "203.0.113.2": OUTSIDE_IP}, {}):
        run_in_network(lab.node, partial(apply, desired))
        assert routes_of(lab.node) == desired


@needs_network
async def test_routes_follow_services_and_nodes(lab: Lab) -> None:
    """The route of a service exists before its status is written. It leads to another node as soon as its node stops,
    though the Ready condition of the node is still true, and is removed with the service."""
    stopped: set[str] = set()
    async with cluster() as api:
        for name, address in (("a", "192.0.2.3"), ("b", "192.0.2.4")):
            created = await api.client.for_kind(Node).create(Node(metadata=ObjectMeta(name=name)))
            created.status = node(name, address).status
            await api.client.for_kind(Node).update_status(created)
        web = Service(
            metadata=ObjectMeta(name="web", namespace="default"),
            spec=ServiceSpec(type="LoadBalancer", ports=[ServicePort(port=80)]),
        )
        web = await api.client.for_kind(Service).create(web)
        async with InformerFactory(client=api.client) as informers, asyncio.TaskGroup() as group:
            routes = LoadBalancerRoutes(
                bridge="up0",
                node_cidrs=["192.0.2.0/24"],
                is_on=lambda node: node.metadata.name not in stopped,
                informers=informers,
                clock=api.clock,
                namespace=NetworkNamespace(lab.node),
            )
            task = group.create_task(routes.run())

            async def leads_to(gateway: str | None) -> None:
                async def has_gateway() -> bool:
                    return (await asyncio.to_thread(routes_of, lab.node)).get("192.0.2.200") == gateway

                await eventually(has_gateway, step=lambda: api.clock.advance(0.1))

            status = LoadBalancerStatus(ingress=[LoadBalancerIngress(ip="192.0.2.200", ipMode="VIP")])
            web.status = ServiceStatus(loadBalancer=status)
            await routes.ensure(web)
            first = (await asyncio.to_thread(routes_of, lab.node))["192.0.2.200"]
            await api.client.for_kind(Service).update_status(web)
            stopped.add("a" if first == "192.0.2.3" else "b")
            await api.client.for_kind(Node).patch(next(iter(stopped)), {"metadata": {"labels": {"stopped": "true"}}})
            await leads_to("192.0.2.4" if first == "192.0.2.3" else "192.0.2.3")
            await api.client.for_kind(Service).delete("web", "default")
            await leads_to(None)
            task.cancel()
