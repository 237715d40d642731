"""The DNS servers of the nodes of a process, which share the table of records, the cache and the upstream resolvers."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from sampan.api.addresses import Address, Network
from sampan.api.semantics.nodes import ip_addresses, pod_cidrs
from sampan.api.types.core_v1 import Node
from sampan.host.clock import Clock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.client import Client
from sampan.machinery.informer import InformerFactory
from sampan.machinery.telemetry.flight_recorder import FlightRecorder, PodAddressTrace
from sampan.machinery.telemetry.metrics import Metrics, export_process
from sampan.network.dns.announcement import AnnouncedServers, DnsAnnouncement
from sampan.network.dns.config import ClusterDnsConfig
from sampan.network.dns.forwarder import Forwarder
from sampan.network.dns.publication import describe_dns_server
from sampan.network.dns.record_table import RecordSource, RecordTable
from sampan.network.dns.responder import Responder
from sampan.network.dns.server import DnsServer
from sampan.network.dns.status_port import duration_metric, export_dns, status_port
from sampan.network.server_publication import PublishedServer, ServerPublication

_MAX_ADMITTED = 10_000
_NODES_S = 1.0
"""The least number of seconds between two reads of the addresses of all nodes. Reading a thousand nodes takes about 15
ms."""


class KnownClients:
    """The clients of a DNS server: pods, nodes, and processes of its own node.

    They are known by loopback addresses, the addresses of the server, the client CIDRs of the configuration, and the
    addresses and pod CIDRs of Node objects. Other hosts can send any number of packets from any address. The Node
    objects are therefore not searched for each packet, but read at intervals.
    """

    def __init__(
        self,
        *,
        addresses: Sequence[str],
        client_cidrs: Sequence[str],
        nodes: Callable[[], Iterable[Node]],
        monotonic: Callable[[], float],
    ) -> None:
        """`monotonic` returns the current time in seconds."""
        self._networks: list[Network] = [
            ipaddress.ip_network(text, strict=False) for text in ("127.0.0.0/8", "::1/128", *addresses, *client_cidrs)
        ]
        self._nodes, self._monotonic = nodes, monotonic
        self._admitted: set[str] = set()
        self._node_networks: dict[tuple[int, int], set[int]] = {}
        """The first addresses of the networks of nodes, as numbers, by IP version and prefix length."""
        self._read_after = monotonic()

    def admits(self, address: str) -> bool:
        if address in self._admitted:
            return True
        if not self._is_known(ipaddress.ip_address(address.partition("%")[0])):
            return False
        if len(self._admitted) >= _MAX_ADMITTED:
            self._admitted.clear()
        self._admitted.add(address)
        return True

    def _is_known(self, address: Address) -> bool:
        return any(address in network for network in self._networks) or self._look_up_node(address)

    def _look_up_node(self, address: Address) -> bool:
        """Return whether a node has the address. The addresses of the nodes are read again from time to time."""
        if self._monotonic() >= self._read_after:
            self._read_after = self._monotonic() + _NODES_S
            self._read_nodes()
        return any(
            version == address.version and int(address) >> (shift := address.max_prefixlen - length) << shift in firsts
            for (version, length), firsts in self._node_networks.items()
        )

    def _read_nodes(self) -> None:
        self._node_networks = {}
        for node in self._nodes():
            for network in (*pod_cidrs(node), *map(ipaddress.ip_network, ip_addresses(node))):
                firsts = self._node_networks.setdefault((network.version, network.prefixlen), set())
                firsts.add(int(network.network_address))


log = logging.getLogger(__name__)


class ClusterDns:
    """The table, cache and upstream resolvers that the DNS servers of all nodes of this process share.

    `async with` keeps them up to date while the servers run.
    """

    def __init__(
        self,
        *,
        config: ClusterDnsConfig,
        client: Client,
        informers: InformerFactory,
        clock: Clock,
        recorder: FlightRecorder | None = None,
    ) -> None:
        self.config, self._client, self._informers, self._clock = config, client, informers, clock
        self.forwarder = Forwarder(config=config.forwarder, clock=clock)
        self.table = RecordTable(zone=config.zone, serial=int(clock.now()))
        trace = PodAddressTrace(recorder=recorder, component="dns", action="add to DNS")
        self.source = RecordSource(table=self.table, informers=informers, trace=trace)
        self.responder = Responder(
            table=self.table, is_synced=self.source.synced.is_set, on_probe=self.forwarder.detect_probe
        )
        self._nodes = informers.for_kind(Node)
        self.servers: dict[str, NodeDns] = {}
        """The servers by node."""
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> ClusterDns:
        await self._group.__aenter__()
        work = [self.forwarder.run(), self.source.run(), self._use_table()]
        if not self.config.is_announced:
            others = AnnouncedServers(client=self._client, informers=self._informers, clock=self._clock)
            work.append(others.run())
        self._tasks = [self._group.create_task(coroutine) for coroutine in work]
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await self._group.__aexit__(None, None, None)

    async def _use_table(self) -> None:
        await self.source.synced.wait()
        self.responder.use_table()
        log.info("DNS has %d record sets, and forwards to %s", len(self.table.record_sets), self.forwarder.choice)

    def server_of(self, *, node: str, namespace: NetworkNamespace, addresses: Sequence[str]) -> NodeDns:
        clients = KnownClients(
            addresses=addresses,
            client_cidrs=self.config.client_cidrs,
            nodes=lambda: self._nodes.lister,
            monotonic=self._clock.monotonic,
        )
        self.servers[node] = server = NodeDns(
            shared=self,
            node=node,
            namespace=namespace,
            addresses=addresses,
            clients=clients,
            publish=self._publish,
        )
        return server

    async def _publish(self, server: PublishedServer) -> None:
        publication = DnsAnnouncement if self.config.is_announced else ServerPublication
        await publication(server=server, client=self._client, informers=self._informers, clock=self._clock).run()


class NodeDns:
    """The DNS server of one node. `run()` serves until it is cancelled, and may be called again."""

    def __init__(
        self,
        *,
        shared: ClusterDns,
        node: str,
        namespace: NetworkNamespace,
        addresses: Sequence[str],
        clients: KnownClients,
        publish: Callable[[PublishedServer], Awaitable[None]],
    ) -> None:
        """Create the server. `publish` publishes it until it is cancelled."""
        self.listening = asyncio.Event()
        self.listen_addresses: list[tuple[str, int]] = []
        """The addresses and ports on which the server accepts connections."""
        self._clients = clients
        self._shared, self._node, self._namespace, self._addresses = shared, node, namespace, addresses
        self._publish = publish

    async def run(self) -> None:
        """Serve DNS on the addresses of the node. The server is published once the table of records is complete."""
        shared, metrics, listening = self._shared, Metrics(), asyncio.Event()
        self.listening.clear()
        server = DnsServer(
            config=shared.config.server,
            namespace=self._namespace,
            addresses=self._addresses,
            responder=shared.responder,
            forwarder=shared.forwarder,
            alias_ttl_s=shared.config.zone.ttl_s,
            durations=duration_metric(metrics),
            admits=self._clients.admits,
        )
        export_dns(metrics, server=server, forwarder=shared.forwarder, table=shared.table)
        export_process(metrics)
        is_synced = shared.source.synced
        status = status_port(
            namespace=self._namespace,
            address=self._addresses[0],
            metrics=metrics,
            is_ready=lambda: is_synced.is_set() and listening.is_set(),
            admits=self._clients.admits,
        )
        async with status as metrics_port, asyncio.TaskGroup() as group:
            group.create_task(server.run(listening))
            await listening.wait()
            ports = [(address, server.port) for address in self._addresses]
            self.listen_addresses = [*ports, (self._addresses[0], metrics_port)]
            self.listening.set()
            await is_synced.wait()
            log.info("DNS of node %s listens on port %d of %s", self._node, server.port, ", ".join(self._addresses))
            await self._publish(
                describe_dns_server(
                    node=self._node, addresses=self._addresses, dns_port=server.port, metrics_port=metrics_port
                )
            )
