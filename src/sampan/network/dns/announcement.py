"""DNS servers of nodes that may not write EndpointSlices, such as those of machines that joined the cluster.

Such a node announces its server with annotations of its own Node object, the only object that the identity of a node
may change. A process of the cluster publishes EndpointSlices for the announcements. A node can therefore direct only
its own pods, and the pods of nodes without a server, to its server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from sampan.api.semantics.nodes import internal_addresses
from sampan.api.types.core_v1 import Node
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, PatchType, Selection
from sampan.machinery.informer import InformerFactory
from sampan.network.dns.publication import MANAGER, NAMESPACE, describe_dns_server
from sampan.network.server_publication import MANAGED_BY, PublishedServer, put_slice, server_slices

log = logging.getLogger(__name__)

DNS_PORT: Final = "network.sampan.dev/dns-port"
METRICS_PORT: Final = "network.sampan.dev/dns-metrics-port"
ANNOUNCED: Final = "network.sampan.dev/announced"
"""The label of EndpointSlices for announcements."""
_RETRY_S, _REMOVAL_S = 5.0, 2.0
_MAX_PORT = 65535


def announced_server(node: Node) -> PublishedServer | None:
    """Return the DNS server that a node announces, or None. It has the addresses of the node."""
    ports = [_port(node.metadata.annotations.get(name, "")) for name in (DNS_PORT, METRICS_PORT)]
    addresses = [str(address) for address in internal_addresses(node)]
    if not all(ports) or not addresses:
        return None
    return describe_dns_server(node=node.metadata.name, addresses=addresses, dns_port=ports[0], metrics_port=ports[1])


def _port(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(_MAX_PORT))
    return int(text) if is_number and int(text) <= _MAX_PORT else 0


def announced_slices(node: Node) -> list[EndpointSlice]:
    server = announced_server(node)
    slices = server_slices(server, node) if server is not None else []
    for item in slices:
        item.metadata.labels[ANNOUNCED] = "true"
    return slices


class DnsAnnouncement:
    """The announcement of a DNS server. `run()` keeps it on the Node object of the server until it is cancelled."""

    def __init__(self, *, server: PublishedServer, client: Client, informers: InformerFactory, clock: Clock) -> None:
        ports = {name: str(number) for name, _, number in server.ports}
        self._node, self._annotations = server.node, {DNS_PORT: ports["dns"], METRICS_PORT: ports["metrics"]}
        self._client, self._nodes, self._clock = client, informers.for_kind(Node), clock
        self._has_changed = asyncio.Event()

    async def run(self) -> None:
        await self._nodes.synced.wait()
        stop = self._nodes.subscribe(self._on_node)
        try:
            while True:
                self._has_changed.clear()
                node = self._nodes.lister.get(self._node)
                if node is not None and not self._annotations.items() <= node.metadata.annotations.items():
                    await self._announce()
                await self._has_changed.wait()
        finally:
            stop()
            await self._withdraw()

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if new is not None and new.metadata.name == self._node:
            self._has_changed.set()

    async def _announce(self) -> None:
        try:
            await self._patch(self._annotations)
        except (errors.ApiError, ConnectionFailed) as error:
            log.warning("cannot announce the DNS server of node %s: %s; retrying", self._node, error)
            await self._clock.sleep(_RETRY_S)
            self._has_changed.set()

    async def _withdraw(self) -> None:
        try:
            async with asyncio.timeout(_REMOVAL_S):
                await self._patch(dict.fromkeys(self._annotations))
        except errors.NotFound:
            return
        except (errors.ApiError, ConnectionFailed, TimeoutError) as error:
            log.warning("cannot withdraw the DNS server of node %s: %s", self._node, error)

    async def _patch(self, annotations: Mapping[str, str | None]) -> None:
        patch = {"metadata": {"annotations": dict(annotations)}}
        await self._client.for_kind(Node).patch(self._node, patch, type=PatchType.MERGE)


class AnnouncedServers:
    """The publisher of announced DNS servers. `run()` keeps their EndpointSlices up to date until it is cancelled."""

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock) -> None:
        self._client, self._clock, self._nodes = client, clock, informers.for_kind(Node)
        selection = Selection(namespace=NAMESPACE, labels=f"{MANAGED_BY}={MANAGER}")
        self._slices = informers.for_kind(EndpointSlice, selection)
        self._has_changed = asyncio.Event()

    async def run(self) -> None:
        for informer in (self._nodes, self._slices):
            await informer.synced.wait()
        stops = [self._nodes.subscribe(self._on_change), self._slices.subscribe(self._on_change)]
        try:
            while True:
                self._has_changed.clear()
                try:
                    await self._reconcile()
                except (errors.ApiError, ConnectionFailed) as error:
                    log.warning("cannot publish the DNS servers of joined nodes: %s; retrying", error)
                    await self._clock.sleep(_RETRY_S)
                else:
                    await self._has_changed.wait()
        finally:
            for stop in stops:
                stop()

    def _on_change(self, old: object | None, new: object | None) -> None:
        self._has_changed.set()

    async def _reconcile(self) -> None:
        desired = {item.metadata.name: item for node in self._nodes.lister for item in announced_slices(node)}
        for name, item in desired.items():
            try:
                await put_slice(self._client, item, self._slices.lister.get(name, NAMESPACE))
            except errors.Invalid as error:  # e.g. a loopback address; other servers are still published
                log.warning("cannot publish the DNS server of a joined node: %s", error)
        for current in list(self._slices.lister):
            if current.metadata.name not in desired and ANNOUNCED in current.metadata.labels:
                try:
                    await self._client.for_kind(EndpointSlice).delete(current.metadata.name, NAMESPACE)
                except errors.NotFound:
                    continue
