"""The endpoints of the service `kubernetes`: the addresses of all API servers that are alive.

Servers that share a store find each other by leases in it, and each of them writes the endpoints that the leases name.
A server that stops removes its lease; the lease of one that was killed expires. kube-apiserver uses the same keys, so
that both can serve one etcd. The counterpart is `pkg/controlplane/reconcilers`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from sampan.api.codec import json, protobuf
from sampan.api.types.core_v1 import EndpointAddress, EndpointPort, Endpoints, EndpointSubset
from sampan.api.types.discovery_v1 import Endpoint, EndpointConditions, EndpointSlice
from sampan.api.types.discovery_v1 import EndpointPort as SlicePort
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.copies import copy_of
from sampan.storage.backend import Backend, StorageError, StoreConflict

log = logging.getLogger(__name__)

LEASE_S = 15
"""How long a server is listed after its last sign of life, as in kube-apiserver."""
_WITHDRAWAL_S = 2.0
"""How long the shutdown of a server waits for the removal of its address."""
_PREFIX = "/registry/masterleases/"
_NAME, _NAMESPACE = "kubernetes", "default"
_SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"


class ServerLeases(Protocol):
    """The addresses of the API servers of a store."""

    async def refresh(self, address: str) -> None:
        """List the address for `LEASE_S` more seconds."""

    async def remove(self, address: str) -> None: ...

    async def addresses(self) -> Sequence[str]: ...


class StoredServerLeases:
    """Leases in a store that several servers share. A lease is an expiring key for an address; its value is an
    Endpoints object."""

    def __init__(self, *, backend: Backend) -> None:
        self._backend = backend

    async def refresh(self, address: str) -> None:
        lease = Endpoints(subsets=[EndpointSubset(addresses=[EndpointAddress(ip=address)])])
        await self._backend.put(_PREFIX + address, json.encode(lease), ttl_s=LEASE_S)

    async def remove(self, address: str) -> None:
        try:
            await self._backend.delete(_PREFIX + address)
        except StoreConflict:
            return  # the lease has expired

    async def addresses(self) -> Sequence[str]:
        page = await self._backend.range(_PREFIX)
        return [address for entry in page.entries if (address := _address_in(entry.value))]


class SoleServer:
    """The address of a server whose store no other server can open, so that no lease has to be written."""

    def __init__(self, *, address: str) -> None:
        self._address = address

    async def refresh(self, address: str) -> None:
        return None

    async def remove(self, address: str) -> None:
        return None

    async def addresses(self) -> Sequence[str]:
        return [self._address]


def server_leases(backend: Backend, address: str) -> ServerLeases:
    return StoredServerLeases(backend=backend) if backend.is_shared else SoleServer(address=address)


def _address_in(value: bytes) -> str:
    """Return the address of a lease, which kube-apiserver writes in protobuf; empty if it has none."""
    try:
        lease: dict[str, Any] = protobuf.decode(value) if value.startswith(protobuf.PREFIX) else json.read_any(value)
        return str(lease["subsets"][0]["addresses"][0]["ip"])
    except (protobuf.ProtobufError, json.JsonSyntaxError, msgspec.MsgspecError, LookupError, TypeError):
        return ""


class EndpointReconciler:
    """Publishes the addresses of all servers. `address` and `port` are where clients reach this one."""

    def __init__(self, *, client: Client, leases: ServerLeases, address: str, port: int) -> None:
        self._endpoints, self._slices = client.for_kind(Endpoints), client.for_kind(EndpointSlice)
        self._leases, self._address = leases, address
        self._port = EndpointPort(name="https", port=port, protocol="TCP")
        self._is_stopped = False

    async def reconcile(self, *, with_ports: bool = False) -> None:
        """Refresh this server's lease, and write the endpoints if they differ from the leases.

        Ports are only reset `with_ports`, as servers of one cluster may listen on different ones.
        """
        if self._is_stopped:
            return
        await self._leases.refresh(self._address)
        if addresses := await self._leases.addresses():
            await self._publish(addresses, with_ports=with_ports)

    async def withdraw(self) -> None:
        """Remove this server's address from the endpoints, for good. If the store is unavailable, its lease expires."""
        self._is_stopped = True
        try:
            async with asyncio.timeout(_WITHDRAWAL_S):
                await self._leases.remove(self._address)
                await self._publish(await self._leases.addresses(), with_ports=False)
        except (TimeoutError, ConnectionFailed, errors.ApiError, StorageError) as error:
            reason = str(error) or "timeout"
            log.warning("cannot remove this server from the endpoints of the service kubernetes: %s", reason)

    async def _publish(self, addresses: Sequence[str], *, with_ports: bool) -> None:
        present = await _find_existing(self._endpoints)
        endpoints = self._build_endpoints(present, addresses, with_ports=with_ports)
        if present is None:
            await self._endpoints.create(endpoints)
        elif endpoints != present:
            await self._endpoints.update(endpoints)
        await self._publish_slice(endpoints)

    def _build_endpoints(self, present: Endpoints | None, addresses: Sequence[str], *, with_ports: bool) -> Endpoints:
        endpoints = copy_of(present) if present is not None else Endpoints(metadata=_meta())
        endpoints.metadata.labels[_SKIP_MIRROR] = "true"
        subsets = endpoints.subsets
        if not addresses:
            endpoints.subsets = []
            return endpoints
        is_regular = len(subsets) == 1
        ports = subsets[0].ports if is_regular and subsets[0].ports and not with_ports else [self._port]
        if is_regular and {address.ip for address in subsets[0].addresses} == set(addresses):
            subsets[0].ports = ports
        else:
            subset = EndpointSubset(addresses=[EndpointAddress(ip=address) for address in addresses], ports=ports)
            endpoints.subsets = [subset]
        return endpoints

    async def _publish_slice(self, endpoints: Endpoints) -> None:
        desired, present = endpoint_slice(endpoints), await _find_existing(self._slices)
        if present is not None and present.addressType != desired.addressType:
            await self._slices.delete(_NAME, _NAMESPACE)
            present = None
        if present is None:
            await self._slices.create(desired)
        elif (present.endpoints, present.ports) != (desired.endpoints, desired.ports):
            desired.metadata.resourceVersion = present.metadata.resourceVersion
            await self._slices.update(desired)


def endpoint_slice(endpoints: Endpoints) -> EndpointSlice:
    """Return the slice with the content of the endpoints. Addresses of the other family are left out, as a slice has
    only one."""
    subset = endpoints.subsets[0] if endpoints.subsets else EndpointSubset()
    versions = {address.ip: ipaddress.ip_address(address.ip).version for address in subset.addresses}
    is_ipv6 = bool(versions) and set(versions.values()) == {6}
    return EndpointSlice(
        metadata=_meta({"kubernetes.io/service-name": _NAME}),
        addressType="IPv6" if is_ipv6 else "IPv4",
        endpoints=[
            Endpoint(addresses=[ip], conditions=EndpointConditions(ready=True))
            for ip, version in versions.items()
            if (version == 6) == is_ipv6
        ]
        or None,
        ports=[SlicePort(name=port.name, port=port.port, protocol=port.protocol) for port in subset.ports] or None,
    )


def _meta(labels: dict[str, str] | None = None) -> ObjectMeta:
    return ObjectMeta(name=_NAME, namespace=_NAMESPACE, labels=labels or {})


async def _find_existing(source: Any) -> Any:
    try:
        return await source.get(_NAME, _NAMESPACE)
    except errors.NotFound:
        return None
