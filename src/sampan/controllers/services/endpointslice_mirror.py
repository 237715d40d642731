"""endpointslice-mirroring-controller, which mirrors custom Endpoints of services without a selector to slices."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final

import msgspec

from sampan.api.types import core_v1
from sampan.api.types.core_v1 import EndpointAddress, Endpoints, Service
from sampan.api.types.discovery_v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.fan_out import for_each, raise_first
from sampan.controllers.namespace_phase import is_namespace_terminating
from sampan.controllers.services.pods import IPV4, IPV6, LAST_CHANGE, Add
from sampan.controllers.services.slice_content import (
    MANAGED_BY,
    SERVICE_NAME,
    PortsKey,
    identity,
    name_prefix,
    ports_key,
    service_keys,
)
from sampan.controllers.services.subsets import repack_subsets
from sampan.host.worker_thread import WorkerThread
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.control_loop.own_writes import DependentWrites
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
_INLINE_ITEMS: Final = 500
_LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
_NOT_COPIED: Final = frozenset({LAST_CHANGE, "kubectl.kubernetes.io/last-applied-configuration"})


@dataclass(slots=True)
class MirroredEndpoints:
    """The desired content of the slices, by address family and ports."""

    ports: dict[tuple[str, PortsKey], list[EndpointPort]] = field(default_factory=dict)
    endpoints: dict[tuple[str, PortsKey], list[Endpoint]] = field(default_factory=dict)
    invalid: int = 0
    skipped: int = 0
    """Number of addresses above the limit per subset."""


@dataclass(slots=True)
class MirrorPlan:
    write: list[EndpointSlice] = field(default_factory=list)
    """Slices to create if they have no name, to update otherwise."""
    delete: list[EndpointSlice] = field(default_factory=list)


def is_mirrored(endpoints: Endpoints | None) -> bool:
    if endpoints is None:
        return False
    meta = endpoints.metadata
    return meta.labels.get(SKIP) != "true" and _LEADER not in meta.annotations


def mirror_endpoints(endpoints: Endpoints, maximum: int) -> MirroredEndpoints:
    result = MirroredEndpoints()
    subsets, result.skipped = repack_subsets(endpoints.subsets)
    for subset in subsets:
        ports = [_port(port) for port in subset.ports]
        content: dict[str, list[Endpoint]] = {}
        added = 0
        addresses = [(source, True) for source in subset.addresses] + [
            (source, False) for source in subset.notReadyAddresses
        ]
        for address, is_ready in addresses:
            if added >= maximum:
                result.skipped += 1
                continue
            family = _family(address.ip)
            if family is None:
                result.invalid += 1
                continue
            content.setdefault(family, []).append(_endpoint(address, is_ready=is_ready))
            added += 1
        for family, family_endpoints in content.items():
            key = (family, ports_key(ports))
            result.ports[key] = ports
            result.endpoints.setdefault(key, []).extend(family_endpoints)
    return result


def _has_many_addresses(endpoints: Endpoints) -> bool:
    """Whether the Endpoints must not be mirrored on the event loop."""
    sizes = (len(subset.addresses) + len(subset.notReadyAddresses) + len(subset.ports) for subset in endpoints.subsets)
    return sum(sizes) > _INLINE_ITEMS


def plan(endpoints: Endpoints, existing: Sequence[EndpointSlice], desired: MirroredEndpoints) -> MirrorPlan:
    """Return the writes for one slice per address family and set of ports, reusing slices to be deleted."""
    changes, spare = MirrorPlan(), dict[str, list[EndpointSlice]]()
    first: dict[tuple[str, PortsKey], EndpointSlice] = {}
    for endpoint_slice in existing:
        key = (endpoint_slice.addressType, ports_key(endpoint_slice.ports or ()))
        if key in first or key not in desired.endpoints:
            spare.setdefault(endpoint_slice.addressType, []).append(endpoint_slice)
        else:
            first[key] = endpoint_slice
    for key, content in desired.endpoints.items():
        mirrored = first.get(key)
        if mirrored is not None and _is_right(mirrored, endpoints, content):
            continue
        if mirrored is None and spare.get(key[0]):
            mirrored = spare[key[0]].pop(0)
        changes.write.append(_slice(endpoints, mirrored, key[0], desired.ports[key], content))
    changes.delete = [endpoint_slice for spares in spare.values() for endpoint_slice in spares]
    return changes


def _is_right(endpoint_slice: EndpointSlice, endpoints: Endpoints, content: Sequence[Endpoint]) -> bool:
    meta = _meta(endpoints, endpoint_slice)
    present = {identity(endpoint): endpoint for endpoint in endpoint_slice.endpoints or ()}
    return (
        endpoint_slice.metadata.labels == meta.labels
        and endpoint_slice.metadata.annotations == meta.annotations
        and not any(owner.uid != endpoints.metadata.uid for owner in endpoint_slice.metadata.ownerReferences)
        and present == {identity(endpoint): endpoint for endpoint in content}
    )


def _slice(
    endpoints: Endpoints,
    endpoint_slice: EndpointSlice | None,
    family: str,
    ports: list[EndpointPort],
    content: list[Endpoint],
) -> EndpointSlice:
    return EndpointSlice(metadata=_meta(endpoints, endpoint_slice), addressType=family, ports=ports, endpoints=content)


def _meta(endpoints: Endpoints, endpoint_slice: EndpointSlice | None) -> ObjectMeta:
    source = endpoints.metadata
    owner = OwnerReference(
        apiVersion="v1", kind="Endpoints", name=source.name, uid=source.uid, controller=True, blockOwnerDeletion=True
    )
    base = endpoint_slice.metadata if endpoint_slice is not None else ObjectMeta(generateName=name_prefix(source.name))
    return msgspec.structs.replace(
        base,
        namespace=source.namespace,
        labels={**source.labels, SERVICE_NAME: source.name, MANAGED_BY: MANAGER},
        annotations={key: value for key, value in source.annotations.items() if key not in _NOT_COPIED},
        ownerReferences=[owner],
        managedFields=[],
    )


def _port(port: core_v1.EndpointPort) -> EndpointPort:
    return EndpointPort(name=port.name, port=port.port, protocol=port.protocol, appProtocol=port.appProtocol)


def _family(text: str) -> str | None:
    try:
        return IPV4 if ip_address(text).version == 4 else IPV6
    except ValueError:
        return None


def _endpoint(address: EndpointAddress, *, is_ready: bool) -> Endpoint:
    return Endpoint(
        addresses=[str(ip_address(address.ip))],
        conditions=EndpointConditions(ready=is_ready),
        targetRef=address.targetRef,
        nodeName=address.nodeName,
        hostname=address.hostname or None,
    )


def by_mirrored_endpoints(obj: Any) -> Iterable[Hashable]:
    """Return the key of the Endpoints that a slice of this controller mirrors."""
    return service_keys(obj, MANAGER)


class EndpointSliceMirroringController:
    name = "endpointslice-mirroring-controller"

    def __init__(
        self,
        *,
        client: Client,
        informers: InformerFactory,
        events: EventRecorder,
        writes: DependentWrites,
        maximum: int,
    ) -> None:
        self._client, self._events, self._writes, self._maximum = (
            client.for_kind(EndpointSlice),
            events,
            writes,
            maximum,
        )
        self._endpoints, self._services = informers.for_kind(Endpoints).lister, informers.for_kind(Service).lister
        self._informer = informers.for_kind(EndpointSlice)
        self._slices = self._informer.lister
        self._slices.add_index(by_mirrored_endpoints)
        self._worker = WorkerThread("sampan-mirrored-slices")
        self.watches = (
            Watch(resource_of(Endpoints), lambda endpoints: (key_of(endpoints),)),
            Watch(resource_of(Service), lambda endpoints: (key_of(endpoints),)),
            Watch(resource_of(EndpointSlice)),
        )

    def feed(self, add: Add) -> None:
        def on_slice_changed(old: EndpointSlice | None, new: EndpointSlice | None) -> None:
            if not self._writes.observe(old, new):
                for key in {*(by_mirrored_endpoints(new) if new else ()), *(by_mirrored_endpoints(old) if old else ())}:
                    add(key)

        self._informer.subscribe(on_slice_changed)

    async def reconcile(self, key: NamespacedName) -> float | None:
        existing = [
            endpoint_slice
            for endpoint_slice in self._slices.find(by_mirrored_endpoints, key)
            if endpoint_slice.metadata.deletionTimestamp is None
        ]
        source, service = self._endpoints.get_by_key(key), self._services.get_by_key(key)
        if source is None or not is_mirrored(source) or service is None or service.spec.selector:
            raise_first(await for_each(existing, self._delete))
            return None
        if wait_s := self._writes.defer(key):
            return wait_s

        def compute() -> tuple[MirroredEndpoints, MirrorPlan]:
            desired = mirror_endpoints(source, self._maximum)
            return desired, plan(source, existing, desired)

        desired, changes = await self._worker.run(compute) if _has_many_addresses(source) else compute()
        if changes.write or changes.delete:
            self._record_skipped(source, desired)
        await self._carry_out(key, changes)
        return None

    def _record_skipped(self, source: Endpoints, desired: MirroredEndpoints) -> None:
        if desired.invalid:
            message = f"Skipped {desired.invalid} invalid IP addresses when mirroring to EndpointSlices"
            self._events.event(source, WARNING, "InvalidIPAddress", message)
        if desired.skipped:
            message = (
                f"A max of {self._maximum} addresses can be mirrored to EndpointSlices per Endpoints subset. "
                f"{desired.skipped + desired.invalid} addresses were skipped"
            )
            self._events.event(source, WARNING, "TooManyAddressesToMirror", message)

    async def _carry_out(self, key: NamespacedName, plan: MirrorPlan) -> None:
        async def write(endpoint_slice: EndpointSlice) -> None:
            send = self._client.update if endpoint_slice.metadata.name else self._client.create
            written = await send(endpoint_slice)
            self._writes.record_write(key, written, self._slices.get_by_key(key_of(written)))

        failures = await for_each(plan.write, write) + await for_each(plan.delete, self._delete)
        raise_first([error for error in failures if not is_namespace_terminating(error)])

    async def _delete(self, endpoint_slice: EndpointSlice) -> None:
        try:
            await self._client.delete(endpoint_slice.metadata.name, endpoint_slice.metadata.namespace)
        except errors.NotFound:
            return


def make(context: ControllerContext) -> EndpointSliceMirroringController:
    return context.build(
        EndpointSliceMirroringController,
        writes=DependentWrites(clock=context.clock),
        maximum=context.config.mirroring_max_endpoints_per_subset,
    )
