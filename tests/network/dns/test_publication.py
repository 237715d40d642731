"""The service kube-dns and the EndpointSlices of the DNS servers, in an API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from sampan.api.types.core_v1 import Namespace, Node, NodeCondition, NodeStatus, Service, ServiceSpec
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery.client import Client
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory
from sampan.network.dns.publication import describe_dns_server, dns_addresses, dns_service, ensure_dns_service
from sampan.network.server_publication import PublishedServer, ServerPublication, server_slices
from tests.api_server import Server, running_api_server
from tests.eventually import eventually

NAME, NAMESPACE = "kube-dns", "kube-system"


@pytest.mark.parametrize(
    ("service_cidrs", "expected"),
    [
        ("10.96.0.0/16", ["10.96.0.10"]),
        ("10.96.0.0/16,fd00:10::/112", ["10.96.0.10", "fd00:10::a"]),
        ("10.96.0.0/29", []),
        ("", []),
    ],
)
def test_dns_address_is_the_tenth_of_each_service_cidr(service_cidrs: str, expected: list[str]) -> None:
    assert dns_addresses(service_cidrs) == expected


def node(name: str, status: str = "True") -> Node:
    return Node(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}"),
        status=NodeStatus(conditions=[NodeCondition(type="Ready", status=status)]),
    )


def server(name: str) -> PublishedServer:
    return describe_dns_server(node=name, addresses=["192.0.2.1", "fd00::1"], dns_port=10053, metrics_port=9153)


def test_endpoint_slices_of_a_dns_server() -> None:
    ipv4, ipv6 = server_slices(server("one"), node("one"))
    assert [item.metadata.name for item in (ipv4, ipv6)] == ["kube-dns-one", "kube-dns-one-ipv6"]
    assert [(port.name, port.protocol, port.port) for port in ipv4.ports or ()] == [
        ("dns", "UDP", 10053),
        ("dns-tcp", "TCP", 10053),
        ("metrics", "TCP", 9153),
    ]
    (endpoint,) = ipv4.endpoints or []
    assert (endpoint.addresses, endpoint.nodeName, endpoint.conditions.ready) == (["192.0.2.1"], "one", True)
    assert endpoint.hints is not None
    assert [hint.name for hint in endpoint.hints.forNodes] == ["one"]
    assert ipv4.metadata.ownerReferences[0].uid == "uid-one"
    (not_ready,) = server_slices(server("one"), node("one", "Unknown"))[0].endpoints or []
    assert not_ready.conditions.ready is False


@asynccontextmanager
async def _cluster() -> AsyncIterator[tuple[Server, Client]]:
    async with asyncio.timeout(60), running_api_server() as api:
        client = api.client()
        await client.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
        yield api, client


def test_kube_dns_service_is_created_and_repaired_but_not_taken_over() -> None:
    async def main() -> None:
        async with _cluster() as (_, client):
            services = client.for_kind(Service)
            await ensure_dns_service(client, ["10.96.0.10"])
            created = await services.get(NAME, NAMESPACE)
            assert created.spec.clusterIP == "10.96.0.10"
            assert created.spec.trafficDistribution == "PreferSameNode"
            await ensure_dns_service(client, ["10.96.0.10"])
            assert (await services.get(NAME, NAMESPACE)).metadata.resourceVersion == created.metadata.resourceVersion

            changed = copy_of(created)
            changed.spec.ports = changed.spec.ports[:1]
            await services.update(changed)
            await ensure_dns_service(client, ["10.96.0.10"])
            assert [port.name for port in (await services.get(NAME, NAMESPACE)).spec.ports] == [
                "dns",
                "dns-tcp",
                "metrics",
            ]
            await ensure_dns_service(client, ["10.96.1.10"])
            assert (await services.get(NAME, NAMESPACE)).spec.clusterIP == "10.96.1.10"

            await services.delete(NAME, NAMESPACE)
            foreign = dns_service(["10.96.0.10"])
            foreign.spec = ServiceSpec(selector={"k8s-app": "kube-dns"}, ports=foreign.spec.ports[:1])
            foreign = await services.create(foreign)
            await ensure_dns_service(client, ["10.96.0.10"])
            assert (await services.get(NAME, NAMESPACE)).metadata.resourceVersion == foreign.metadata.resourceVersion

    asyncio.run(main())


def test_endpoint_slices_follow_dns_servers_and_node_readiness() -> None:
    async def main() -> None:
        async with (
            _cluster() as (api, client),
            InformerFactory(client=client) as informers,
            asyncio.TaskGroup() as group,
        ):
            slices = informers.for_kind(EndpointSlice)

            def readiness() -> dict[str, bool | None]:
                return {item.metadata.name: (item.endpoints or [])[0].conditions.ready for item in slices.lister}

            def publish(name: str) -> asyncio.Task[None]:
                publication = ServerPublication(
                    server=server(name), client=client, informers=informers, clock=api.clock
                )
                return group.create_task(publication.run())

            first, second = publish("one"), publish("two")
            for name in ("one", "two"):
                await client.for_kind(Node).create(node(name))
            all_ready = {f"kube-dns-{name}{end}": True for name in ("one", "two") for end in ("", "-ipv6")}
            await eventually(_is(readiness, all_ready))

            await client.for_kind(EndpointSlice).delete("kube-dns-one", NAMESPACE)
            await eventually(_is(readiness, all_ready))

            unreachable = copy_of(await client.for_kind(Node).get("two"))
            unreachable.status.conditions = [NodeCondition(type="Ready", status="Unknown")]
            await client.for_kind(Node).update_status(unreachable)
            await eventually(_is(readiness, {name: "one" in name for name in all_ready}))

            second.cancel()
            await eventually(lambda: readiness() == {"kube-dns-one": True, "kube-dns-one-ipv6": True})
            first.cancel()
            await eventually(lambda: readiness() == {})

    asyncio.run(main())


def _is(read: Callable[[], dict[str, bool | None]], expected: dict[str, bool]) -> Callable[[], bool]:
    return lambda: read() == expected
