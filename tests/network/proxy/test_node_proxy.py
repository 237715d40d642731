"""kube-proxy of a node with its health and metrics servers, in a network namespace and with an API server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest

from sampan.api.types.core_v1 import Node, NodeAddress, NodeStatus, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.request.call import AUTHENTICATED, UserInfo
from sampan.host.clock import RealClock
from sampan.host.linux.network_namespace import NetworkNamespace, run_in_network
from sampan.machinery.client import Client
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName
from sampan.machinery.telemetry.metrics import Metrics
from sampan.network.nft import run_nft
from sampan.network.proxy.kube_proxy_configuration import KubeProxyConfiguration, with_defaults
from sampan.network.proxy.nftables.table_sync import remove_tables
from sampan.network.proxy.node_proxy import LIMIT_REASON, LimitReporter, NodeChanged, NodeProxy, NodeProxyConfig
from sampan.network.proxy.tracker import ServiceChange
from tests.controllers.cluster import cluster
from tests.eventually import eventually
from tests.network.pods.lab import NODE_IP, NODE_IP6, OUTSIDE_IP, Lab, listening, needs_network
from tests.network.proxy.conversation import reply, talk
from tests.network.proxy.events import RecordedEvents
from tests.network.proxy.objects import NODE, OTHER_NODE, endpoint, endpoint_slice, port, service

pytestmark = needs_network

NODE_PORT, HEALTH_CHECK_PORT = 30080, 30081


@asynccontextmanager
async def running_proxy(lab: Lab, configuration: KubeProxyConfiguration) -> AsyncIterator[Client]:
    async with cluster() as api:
        addresses = [NodeAddress(type="InternalIP", address=ip) for ip in (NODE_IP, NODE_IP6)]
        node = await api.client.for_kind(Node).create(Node(metadata=ObjectMeta(name=NODE)))
        await api.client.for_kind(Node).update_status(
            msgspec.structs.replace(node, status=NodeStatus(addresses=addresses))
        )
        transport = api.transport.as_user(UserInfo("system:kube-proxy", groups=(AUTHENTICATED,)))
        client = Client(transport=transport, clock=RealClock(), component="kube-proxy")
        async with InformerFactory(client=client) as informers:
            proxy = NodeProxy(
                config=NodeProxyConfig(
                    node_name=NODE,
                    namespace=NetworkNamespace(lab.node),
                    configuration=with_defaults(configuration),
                    removes_rules=True,
                ),
                client=client,
                informers=informers,
                nodes=informers.for_kind(Node),
                clock=RealClock(),
                metrics=Metrics(),
            )
            async with asyncio.TaskGroup() as group:
                task = group.create_task(proxy.run())
                async with asyncio.timeout(60):
                    await proxy.synced.wait()
                yield api.client
                task.cancel()


async def http(lab: Lab, address: str, number: int, path: str) -> tuple[int, str]:
    """Send a request from the node; return the status code, or 0 if the connection is refused, and the body."""
    loop = asyncio.get_running_loop()
    with NetworkNamespace(lab.node).socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        client.setblocking(False)
        try:
            await loop.sock_connect(client, (address, number))
        except ConnectionRefusedError:
            return 0, ""
        await loop.sock_sendall(client, f"GET {path} HTTP/1.0\r\n\r\n".encode())
        data = b""
        while part := await loop.sock_recv(client, 65536):
            data += part
    head, _, body = data.decode().partition("\r\n\r\n")
    return int(head.split()[1]), body


async def rules(lab: Lab) -> str:
    return (await asyncio.to_thread(run_in_network, lab.node, partial(run_nft, "list", "ruleset"))).decode()


async def test_nftables_mode_serves_node_ports_health_checks_and_metrics(lab: Lab) -> None:
    async with running_proxy(lab, KubeProxyConfiguration(clusterCIDR="10.77.0.0/16")) as client:
        obj = service(
            "web",
            port(80, node_port=NODE_PORT),
            type="LoadBalancer",
            externalTrafficPolicy="Local",
            healthCheckNodePort=HEALTH_CHECK_PORT,
            ip=[],
        )
        await client.for_kind(Service).create(obj)
        slice = endpoint_slice("web", endpoint(OUTSIDE_IP, node=OTHER_NODE))
        slice = await client.for_kind(EndpointSlice).create(slice)

        async def is_proxied() -> bool:
            return OUTSIDE_IP in await rules(lab)

        await eventually(is_proxied, timeout_s=30)
        with listening(lab.outside, 8080) as server:
            received, _ = await asyncio.gather(
                talk(NetworkNamespace(lab.node), "127.0.0.1", NODE_PORT, socket.SOCK_STREAM), reply(server, b"hi")
            )
        assert received == b"hi"
        status, body = await http(lab, NODE_IP, HEALTH_CHECK_PORT, "/")
        assert (status, '"localEndpoints": 0' in body) == (503, True)
        assert (await http(lab, "127.0.0.1", HEALTH_CHECK_PORT, "/"))[0] == 0, (
            "health checks listen only on the primary addresses"
        )
        slice.endpoints[0].nodeName = NODE  # type: ignore[index]
        await client.for_kind(EndpointSlice).update(slice)

        async def is_healthy() -> bool:
            return (await http(lab, NODE_IP, HEALTH_CHECK_PORT, "/"))[0] == 200

        await eventually(is_healthy, timeout_s=30)
        assert (await http(lab, NODE_IP, 10256, "/healthz"))[0] == 200
        assert await http(lab, "127.0.0.1", 10249, "/proxyMode") == (200, "nftables")
        assert (
            "kubeproxy_sync_proxy_rules_last_timestamp_seconds" in (await http(lab, "127.0.0.1", 10249, "/metrics"))[1]
        )

    async def is_removed() -> bool:
        return "kube-proxy" not in await rules(lab)

    await eventually(is_removed, timeout_s=30)


async def test_the_proxy_ends_when_the_addresses_of_its_node_change(lab: Lab) -> None:
    async def change_address() -> None:
        async with running_proxy(lab, KubeProxyConfiguration()) as client:
            addresses = [{"type": "InternalIP", "address": OUTSIDE_IP}, {"$patch": "replace"}]
            await client.for_kind(Node).patch(NODE, {"status": {"addresses": addresses}}, subresource="status")
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as failure:
        await change_address()
    assert isinstance(failure.value.exceptions[0], NodeChanged)


async def test_cleanup_removes_only_tables_of_kube_proxy(lab: Lab) -> None:
    """A second clean-up finds nothing to remove."""
    text = "table ip kube-proxy { chain a { }; }; table ip6 kube-proxy { }; table ip other { }"
    await asyncio.to_thread(run_in_network, lab.node, lambda: run_nft("-f", "-", text=text))
    for _ in range(2):
        await asyncio.to_thread(run_in_network, lab.node, remove_tables)
    assert (await rules(lab)).split() == ["table", "ip", "other", "{", "}"]


async def test_a_service_beyond_the_limits_of_the_node_gets_an_event() -> None:
    def change(*problems: str) -> ServiceChange:
        return ServiceChange(service=NamespacedName("default", "web"), previous=(), current=(), problems=problems)

    events = RecordedEvents()
    reporter = LimitReporter(events)
    for problems in (["too many"], ["too many", "and more"], [], ["too many"]):
        await reporter.on_changes([change(*problems)])
    assert [(reason, about, message) for _, reason, about, message in events.events] == [
        (LIMIT_REASON, "default/web", message) for message in ("too many", "and more", "too many")
    ]
