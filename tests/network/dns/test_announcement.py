"""DNS servers of nodes that announce them on their Node objects."""

from __future__ import annotations

import asyncio

import pytest

from sampan.api.types.core_v1 import Namespace, Node, NodeAddress, NodeCondition, NodeStatus
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory
from sampan.network.dns.announcement import (
    DNS_PORT,
    METRICS_PORT,
    AnnouncedServers,
    DnsAnnouncement,
    announced_server,
    announced_slices,
)
from sampan.network.dns.publication import describe_dns_server
from tests.api_server import running_api_server
from tests.eventually import eventually


def node(name: str = "b", **annotations: str) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, annotations=annotations),
        status=NodeStatus(
            addresses=[NodeAddress(type="InternalIP", address="192.0.2.7")],
            conditions=[NodeCondition(type="Ready", status="True")],
        ),
    )


@pytest.mark.parametrize("port", ["", "0", "65536", "-1", "x", "9" * 5000, "\u0661"])
def test_an_announcement_without_a_usable_port_is_ignored(port: str) -> None:
    assert announced_server(node(**{DNS_PORT: port, METRICS_PORT: "9153"})) is None
    assert announced_slices(node()) == []


def test_an_announced_server_has_the_addresses_of_its_node() -> None:
    (item,) = announced_slices(node(**{DNS_PORT: "10053", METRICS_PORT: "9153"}))
    (endpoint,) = item.endpoints or []
    assert (endpoint.addresses, endpoint.nodeName) == (["192.0.2.7"], "b")
    assert endpoint.hints is not None
    assert [hint.name for hint in endpoint.hints.forNodes] == ["b"]


@pytest.mark.parametrize("address", ["no address", "fe80::1%x", ""])
def test_node_with_invalid_address_announces_no_slices(address: str) -> None:
    announced = node(**{DNS_PORT: "10053", METRICS_PORT: "9153"})
    announced.status.addresses[0].address = address
    assert announced_slices(announced) == []


def test_rejected_slice_of_a_node_does_not_affect_other_nodes() -> None:
    async def main() -> None:
        async with asyncio.timeout(60), running_api_server() as api:
            client = api.client()
            await client.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name="kube-system")))
            for name, address in (("a", "127.0.0.1"), ("b", "192.0.2.7")):
                created = copy_of(
                    await client.for_kind(Node).create(node(name, **{DNS_PORT: "10053", METRICS_PORT: "9153"}))
                )
                created.status = node().status
                created.status.addresses = [NodeAddress(type="InternalIP", address=address)]
                await client.for_kind(Node).update_status(created)
            async with InformerFactory(client=client) as informers, asyncio.TaskGroup() as group:
                servers = AnnouncedServers(client=client, informers=informers, clock=api.clock)
                task = group.create_task(servers.run())
                slices = informers.for_kind(EndpointSlice)
                await eventually(lambda: [item.metadata.name for item in slices.lister] == ["kube-dns-b"])
                task.cancel()

    asyncio.run(main())


def test_endpoint_slices_follow_dns_announcements() -> None:
    async def main() -> None:
        async with asyncio.timeout(60), running_api_server() as api:
            client = api.client()
            await client.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name="kube-system")))
            created = copy_of(await client.for_kind(Node).create(node()))
            created.status = node().status
            await client.for_kind(Node).update_status(created)
            async with InformerFactory(client=client) as informers, asyncio.TaskGroup() as group:
                slices = informers.for_kind(EndpointSlice)

                def names() -> list[str]:
                    return [item.metadata.name for item in slices.lister]

                settings = {"client": client, "informers": informers, "clock": api.clock}
                published = group.create_task(AnnouncedServers(**settings).run())  # type: ignore[arg-type]
                server = describe_dns_server(node="b", addresses=["192.0.2.7"], dns_port=10053, metrics_port=9153)
                announcement = group.create_task(DnsAnnouncement(server=server, **settings).run())  # type: ignore[arg-type]
                await eventually(lambda: names() == ["kube-dns-b"])
                await client.for_kind(EndpointSlice).delete("kube-dns-b", "kube-system")
                await eventually(lambda: names() == ["kube-dns-b"])
                announcement.cancel()
                await eventually(lambda: names() == [])
                assert DNS_PORT not in (await client.for_kind(Node).get("b")).metadata.annotations
                published.cancel()

    asyncio.run(main())
