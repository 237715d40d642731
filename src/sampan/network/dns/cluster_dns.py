"""The DNS servers of the nodes of a process, which share the table of records, the cache and the upstream resolvers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.machinery.informer import InformerFactory
from sampan.machinery.metrics import Metrics
from sampan.machinery.network_namespace import NetworkNamespace
from sampan.machinery.process_metrics import export_process
from sampan.network.dns.forwarder import Forwarder, ForwarderConfig
from sampan.network.dns.publication import PublishedServer, ServerPublication
from sampan.network.dns.record_table import RecordSource, RecordTable
from sampan.network.dns.records import ZoneConfig
from sampan.network.dns.responder import Responder
from sampan.network.dns.server import DnsServer, DnsServerConfig
from sampan.network.dns.status_port import duration_metric, export_dns, status_port

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDnsConfig:
    zone: ZoneConfig = field(default_factory=ZoneConfig)
    forwarder: ForwarderConfig = field(default_factory=ForwarderConfig)
    server: DnsServerConfig = field(default_factory=DnsServerConfig)


class ClusterDns:
    """What the DNS servers of all nodes of this process share. `run()` must run while they serve."""

    def __init__(self, *, config: ClusterDnsConfig, client: Client, informers: InformerFactory, clock: Clock) -> None:
        self.config, self._client, self._informers, self._clock = config, client, informers, clock
        self.forwarder = Forwarder(config=config.forwarder, clock=clock)
        self.table = RecordTable(zone=config.zone, serial=int(clock.now()))
        self.source = RecordSource(table=self.table, informers=informers)
        self.responder = Responder(
            table=self.table, is_synced=self.source.synced.is_set, on_probe=self.forwarder.is_probe
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.forwarder.run())
            group.create_task(self.source.run())
            began = time.perf_counter()
            await self.source.synced.wait()
            self.responder.use_table()
            log.info("%d DNS record sets in %.3f s", len(self.table.record_sets), time.perf_counter() - began)

    async def serve_node(self, *, node: str, namespace: NetworkNamespace, addresses: Sequence[str]) -> None:
        """Serve DNS on the addresses of a node until cancelled. The server is published once the table is complete."""
        metrics = Metrics()
        server = DnsServer(
            config=self.config.server,
            namespace=namespace,
            addresses=addresses,
            responder=self.responder,
            forwarder=self.forwarder,
            alias_ttl_s=self.config.zone.ttl_s,
            durations=duration_metric(metrics),
        )
        export_dns(metrics, server=server, forwarder=self.forwarder, table=self.table)
        export_process(metrics)
        listening, is_synced = asyncio.Event(), self.source.synced
        status = status_port(
            namespace=namespace,
            address=addresses[0],
            metrics=metrics,
            is_ready=lambda: is_synced.is_set() and listening.is_set(),
        )
        async with status as metrics_port, asyncio.TaskGroup() as group:
            group.create_task(server.run(listening))
            await listening.wait()
            await is_synced.wait()
            published = PublishedServer(node=node, addresses=addresses, dns_port=server.port, metrics_port=metrics_port)
            log.info("DNS of node %s listens on port %d of %s", node, server.port, ", ".join(addresses))
            await ServerPublication(
                server=published, client=self._client, informers=self._informers, clock=self._clock
            ).run()
