"""EndpointSlices through which a Service leads to servers that nodes run outside of pods.

The service has no selector: each server keeps the EndpointSlices of its node. They belong to the Node object, so that
they are deleted with it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sampan.api.types.core_v1 import Node
from sampan.api.types.discovery_v1 import (
    Endpoint,
    EndpointConditions,
    EndpointHints,
    EndpointPort,
    EndpointSlice,
    ForNode,
)
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.host.backoff import Backoff, RetryDelays
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, Selection
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName

log = logging.getLogger(__name__)

MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME: Final = "kubernetes.io/service-name"
_BACKOFF = Backoff(0.5, 60.0)
_REMOVAL_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedServer:
    """A server of a node as its EndpointSlices describe it."""

    service: NamespacedName
    manager: str
    """The value of the label `managed-by` of the EndpointSlices of all servers of the service."""
    node: str
    addresses: Sequence[str]
    ports: Sequence[tuple[str, str, int]]
    """The name, protocol and number of each port."""
    labels: Mapping[str, str] = field(default_factory=dict)


def server_slices(server: PublishedServer, node: Node) -> list[EndpointSlice]:
    """Return the EndpointSlices of a node, one for each family of its addresses."""
    return [
        slice_of
        for family, version in (("IPv4", 4), ("IPv6", 6))
        if (slice_of := _server_slice(server, node, family, version)) is not None
    ]


def _server_slice(server: PublishedServer, node: Node, family: str, version: int) -> EndpointSlice | None:
    addresses = [address for address in server.addresses if ipaddress.ip_address(address).version == version]
    if not addresses:
        return None
    is_ready = is_reachable(node)
    endpoint = Endpoint(
        addresses=addresses[:1],
        conditions=EndpointConditions(ready=is_ready, serving=is_ready, terminating=False),
        nodeName=server.node,
        hints=EndpointHints(forNodes=[ForNode(name=server.node)]),
    )
    owner = OwnerReference(apiVersion="v1", kind="Node", name=server.node, uid=node.metadata.uid)
    return EndpointSlice(
        metadata=ObjectMeta(
            name=f"{server.service.name}-{server.node}" + ("" if version == 4 else "-ipv6"),
            namespace=server.service.namespace,
            labels={SERVICE_NAME: server.service.name, MANAGED_BY: server.manager, **server.labels},
            ownerReferences=[owner],
        ),
        addressType=family,
        endpoints=[endpoint],
        ports=[EndpointPort(name=name, protocol=protocol, port=number) for name, protocol, number in server.ports],
    )


def is_reachable(node: Node) -> bool:
    """Whether the node may be reachable: its Ready condition is not Unknown, so its kubelet has not stopped renewing
    its lease."""
    return all(condition.status != "Unknown" for condition in node.status.conditions if condition.type == "Ready")


async def put_slice(client: Client, desired: EndpointSlice, current: EndpointSlice | None) -> None:
    """Create an EndpointSlice, or update the current one if it differs."""
    slices = client.for_kind(EndpointSlice)
    if current is None:
        await _ignore_conflict(slices.create(desired))
    elif _content(current) != _content(desired):
        desired.metadata.resourceVersion = current.metadata.resourceVersion
        await _ignore_conflict(slices.update(desired))


async def _ignore_conflict(write: Awaitable[object]) -> None:
    """Wait for a write, and ignore a conflict. The watch event of the conflicting write leads to another attempt."""
    try:
        await write
    except (errors.Conflict, errors.AlreadyExists, errors.NotFound):
        return


class ServerPublication:
    """Keeps the EndpointSlices of one server, and marks those of nodes that are gone as not ready.

    `run()` removes the slices of its own node when it is cancelled.
    """

    def __init__(self, *, server: PublishedServer, client: Client, informers: InformerFactory, clock: Clock) -> None:
        self._server, self._client, self._clock = server, client, clock
        self._nodes = informers.for_kind(Node)
        self._namespace = server.service.namespace
        selection = Selection(namespace=self._namespace, labels=f"{MANAGED_BY}={server.manager}")
        self._slices = informers.for_kind(EndpointSlice, selection)
        self._has_changed = asyncio.Event()

    async def run(self) -> None:
        for informer in (self._nodes, self._slices):
            await informer.synced.wait()
        stops = [self._nodes.subscribe(self._on_change), self._slices.subscribe(self._on_change)]
        try:
            delays = RetryDelays(_BACKOFF)
            while True:
                self._has_changed.clear()
                try:
                    await self._reconcile()
                except (errors.ApiError, ConnectionFailed) as error:
                    log.warning("cannot publish %s of node %s: %s", self._server.service, self._server.node, error)
                    await self._clock.sleep(delays.next_s())
                else:
                    delays.reset()
                    await self._has_changed.wait()
        finally:
            for stop in stops:
                stop()
            await self._remove()

    def _on_change(self, old: object | None, new: object | None) -> None:
        self._has_changed.set()

    async def _reconcile(self) -> None:
        node = self._nodes.lister.get(self._server.node)
        own = {} if node is None else {item.metadata.name: item for item in server_slices(self._server, node)}
        for name, desired in own.items():
            await put_slice(self._client, desired, self._slices.lister.get(name, self._namespace))
        for current in list(self._slices.lister):
            if current.metadata.name not in own:
                await self._mark_not_ready_if_gone(current)

    async def _mark_not_ready_if_gone(self, current: EndpointSlice) -> None:
        """Mark the slice of another node as not ready if that node is gone. Its own server marks it as ready."""
        (endpoint,) = current.endpoints or [Endpoint()]
        node = self._nodes.lister.get(endpoint.nodeName or "")
        if endpoint.conditions.ready and node is not None and not is_reachable(node):
            changed = EndpointSlice(
                metadata=current.metadata,
                addressType=current.addressType,
                endpoints=[
                    Endpoint(
                        addresses=endpoint.addresses,
                        conditions=EndpointConditions(ready=False, serving=False, terminating=False),
                        nodeName=endpoint.nodeName,
                        hints=endpoint.hints,
                    )
                ],
                ports=current.ports,
            )
            await _ignore_conflict(self._client.for_kind(EndpointSlice).update(changed))

    async def _remove(self) -> None:
        try:
            async with asyncio.timeout(_REMOVAL_S):
                for current in list(self._slices.lister):
                    if any(endpoint.nodeName == self._server.node for endpoint in current.endpoints or ()):
                        await _ignore_conflict(
                            self._client.for_kind(EndpointSlice).delete(current.metadata.name, self._namespace)
                        )
        except (errors.ApiError, ConnectionFailed, TimeoutError) as error:
            log.warning("cannot remove the EndpointSlice of node %s: %s", self._server.node, error)


def _content(item: EndpointSlice) -> tuple[object, ...]:
    metadata = item.metadata
    owners = [(owner.kind, owner.name, owner.uid) for owner in metadata.ownerReferences]
    return dict(metadata.labels), owners, item.addressType, item.endpoints, item.ports
