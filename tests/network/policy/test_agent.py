"""No packet reaches a pod before its policies are enforced, whatever the informers know."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest

from sampan.api.limits import NETWORK_POLICY_PEERS
from sampan.api.types.core_v1 import Container, Event, Namespace, Pod, PodSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.networking_v1 import NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPort, NetworkPolicySpec
from sampan.host.clock import RealClock
from sampan.host.linux.network_namespace import NetworkNamespace, run_in_network
from sampan.machinery.client import Client, PatchType, ResourceClient, Selection
from sampan.machinery.client.codecs import resource_of
from sampan.machinery.informer import InformerFactory
from sampan.network.nft import run_nft
from sampan.network.pods import BridgeConfig, BridgeNetwork
from sampan.network.policy import NetworkPolicyAgent, PolicyConfig, agent
from tests.api_server import running_api_server
from tests.eventually import eventually
from tests.network.pods.conftest import lab
from tests.network.pods.lab import Lab, needs_network
from tests.network.policy import objects

__all__ = ["lab"]
pytestmark = needs_network
PORT = 4711


class Node:
    """A node whose agent watches a real API server."""

    def __init__(self, lab: Lab, client: Client) -> None:
        self.client, self.informers = client, InformerFactory(client=client)
        clock, bridge = RealClock(), "tsta0"
        self.agent = NetworkPolicyAgent(
            config=PolicyConfig(node="n0", bridge=bridge),
            namespace=NetworkNamespace(lab.node),
            client=client,
            informers=self.informers,
            clock=clock,
        )
        self.network = BridgeNetwork(
            directory=lab.node.parent / "network",
            config=BridgeConfig(bridge=bridge),
            clock=clock,
            isolation=self.agent,
        )

    async def create_pod(self, name: str, **labels: str) -> str:
        pod = Pod(
            metadata=ObjectMeta(name=name, namespace="x", labels=labels),
            spec=PodSpec(nodeName="n0", containers=[Container(name="c", image="i")]),
        )
        return (await self.client.for_kind(Pod).create(pod)).metadata.uid

    async def create_policy(self, name: str) -> None:
        spec = NetworkPolicySpec(podSelector=objects.selector(app="server"), policyTypes=["Ingress"])
        await self.client.for_kind(NetworkPolicy).create(
            NetworkPolicy(metadata=ObjectMeta(name=name, namespace="x"), spec=spec)
        )


@asynccontextmanager
async def node_of(lab: Lab) -> AsyncIterator[Node]:
    async with running_api_server() as server:
        node = Node(lab, server.client())
        await node.client.for_kind(Namespace).create(objects.namespace("x"))
        async with node.network:
            node.network.use_pod_cidrs(["10.78.0.0/24"])
            yield node
            await node.network.remove_all()
        node.agent.close()


@asynccontextmanager
async def running_agent(node: Node) -> AsyncIterator[None]:
    """Run the informers and the agent for the duration of the block."""
    async with node.informers:
        task = asyncio.create_task(node.agent.run())
        try:
            await node.informers.wait_synced()
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


class Flood:
    """Sends datagrams to an address without a pause, also before there is a pod with it."""

    def __init__(self, address: str) -> None:
        self.address, self.sent, self.is_over = address, 0, threading.Event()

    def send(self) -> None:
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as client:
            while not self.is_over.wait(0.0005):
                try:
                    client.sendto(b"?", (self.address, PORT))
                except OSError:
                    continue
                self.sent += 1

    async def send_more(self) -> None:
        """Wait until so many more datagrams have been sent that the server would have received some of them."""
        before = self.sent
        await eventually(lambda: self.sent >= before + 200)


@contextmanager
def flooded(namespace: Path, address: str) -> Iterator[Flood]:
    flood = Flood(address)
    thread = threading.Thread(target=lambda: run_in_network(namespace, flood.send))
    thread.start()
    try:
        yield flood
    finally:
        flood.is_over.set()
        thread.join()


def _bind() -> socket.socket:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    server.bind(("0.0.0.0", PORT))
    return server


def _count_received(server: socket.socket) -> int:
    count = 0
    try:
        while server.recv(10):
            count += 1
    except BlockingIOError:
        pass
    return count


@asynccontextmanager
async def connected_under_flood(
    lab: Lab, node: Node, prepare: Callable[[], Awaitable[str]]
) -> AsyncIterator[tuple[socket.socket, Flood]]:
    """Connect a server whose address is flooded by another pod from before it exists."""
    client = lab.add_namespace("client")
    await node.network.attach(await node.create_pod("client"), client, [])
    target = lab.add_namespace("server")
    with run_in_network(target, _bind) as server, flooded(client, "10.78.0.3") as flood:
        uid = await prepare()
        assert await node.network.attach(uid, target, []) == ["10.78.0.3"]
        yield server, flood


def test_packets_arrive_without_a_policy(lab: Lab) -> None:
    """Without a policy, the flood that the other tests send is received."""

    async def main() -> None:
        async with (
            node_of(lab) as node,
            running_agent(node),
            connected_under_flood(lab, node, lambda: node.create_pod("server", app="server")) as (server, _),
        ):
            await eventually(lambda: _count_received(server))

    lab.run(main)


def test_isolate_does_not_miss_a_pod_seen_while_rules_are_written(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "_POD_SYNC_TIMEOUT_S", 3600.0)

    async def main() -> None:
        async with node_of(lab) as node, running_agent(node), asyncio.timeout(60):
            for number in range(20):
                uid = await node.create_pod(f"pod-{number}")
                await node.agent.isolate(uid, [f"10.78.0.{number + 2}"])

    lab.run(main)


def test_new_pod_gets_no_packet_before_a_policy_unknown_to_the_informer(lab: Lab) -> None:
    async def main() -> int:
        async with node_of(lab) as node, running_agent(node):

            async def prepare() -> str:
                node.informers.forget(resource_of(NetworkPolicy))
                await node.create_policy("late")
                return await node.create_pod("server", app="server")

            async with connected_under_flood(lab, node, prepare) as (server, flood):
                await flood.send_more()
                return _count_received(server)

    assert lab.run(main) == 0


def test_pod_unknown_to_the_informers_gets_no_packet(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "_POD_SYNC_TIMEOUT_S", 0.1)

    async def main() -> tuple[int, int]:
        async with node_of(lab) as node:
            client, target = lab.add_namespace("client"), lab.add_namespace("server")
            async with running_agent(node):
                await node.network.attach(await node.create_pod("client"), client, [])
            await node.create_policy("deny")
            uid = await node.create_pod("server", app="server")
            with run_in_network(target, _bind) as server, flooded(client, "10.78.0.3") as flood:
                await node.network.attach(uid, target, [])
                await flood.send_more()
                before = _count_received(server)
                async with running_agent(node):
                    await flood.send_more()
                    return before, _count_received(server)

    assert lab.run(main) == (0, 0)


def test_policy_above_the_size_limit_gets_one_event(lab: Lab) -> None:
    """The event is not repeated by a change of the labels; a policy below the limit has none."""

    async def main() -> list[tuple[str, str, str, int]]:
        async with node_of(lab) as node, running_agent(node):
            policies = node.client.for_kind(NetworkPolicy)
            ports = [NetworkPolicyPort(port=1 + number) for number in range(NETWORK_POLICY_PEERS + 1)]
            spec = NetworkPolicySpec(ingress=[NetworkPolicyIngressRule(ports=ports)], policyTypes=["Ingress"])
            meta = ObjectMeta(name="large", namespace="x")
            await node.create_policy("small")
            await policies.create(NetworkPolicy(metadata=meta, spec=spec))
            events = node.client.for_kind(Event)
            await eventually(lambda: _has_event(events, "large"))
            await policies.patch("large", {"metadata": {"labels": {"a": "b"}}}, "x", type=PatchType.MERGE)
            patch = {"spec": {"ingress": [{"ports": [{"port": port.port} for port in ports]}]}}
            await policies.patch("small", patch, "x", type=PatchType.MERGE)
            await eventually(lambda: _has_event(events, "small"))
            items = (await events.list_all(Selection(namespace="x"))).items
            return [(item.involvedObject.name, item.type, item.reason, item.count) for item in items]

    expected = [(name, "Warning", "NetworkPolicyTooLarge", 1) for name in ("large", "small")]
    assert lab.run(main) == expected


async def _has_event(events: ResourceClient[Event], policy: str) -> bool:
    page = await events.list_all(Selection(namespace="x"))
    return any(item.involvedObject.name == policy for item in page.items)


def rules_of(lab: Lab) -> bytes:
    return run_in_network(lab.node, lambda: run_nft("list", "table", "inet", "sampan-netpol"))


def table_handle(lab: Lab) -> bytes:
    """Return the kernel's handle of the table, which changes when an agent has written the table again."""
    return run_in_network(lab.node, lambda: run_nft("-a", "list", "tables"))


def test_rules_of_the_previous_process_apply_until_informers_are_synced(lab: Lab) -> None:
    """A restarted agent neither opens nor cuts running pods before it knows the policies."""

    async def main() -> None:
        async with running_api_server() as server:
            first = Node(lab, server.client())
            await first.client.for_kind(Namespace).create(objects.namespace("x"))
            async with first.network:
                first.network.use_pod_cidrs(["10.78.0.0/24"])
                await first.create_policy("deny")
                async with running_agent(first):
                    uids = {name: await first.create_pod(name, app=name) for name in ("server", "other")}
                    for name, uid in uids.items():
                        await first.network.attach(uid, lab.add_namespace(name), [])
            first.agent.close()
            before, handle = rules_of(lab), table_handle(lab)
            second = Node(lab, server.client())
            async with second.network:
                second.network.use_pod_cidrs(["10.78.0.0/24"])
                await second.network.detach(uids["other"])
                assert (rules_of(lab), table_handle(lab)) == (before, handle)
                async with running_agent(second):
                    await eventually(lambda: table_handle(lab) != handle)
                    assert rules_of(lab) == before
                await second.network.remove_all()
            second.agent.close()
            assert b"sampan-netpol" not in run_in_network(lab.node, lambda: run_nft("list", "tables"))

    lab.run(main)
