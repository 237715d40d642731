"""The table of ready-made record sets, and the source that keeps it up to date from informers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from sampan.api.types.core_v1 import Namespace, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.host.time_slice import TimeSlice
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.machinery.telemetry.flight_recorder import PodAddressTrace
from sampan.network.dns.config import ZoneConfig
from sampan.network.dns.records import (
    Names,
    ServiceRecords,
    SliceRecords,
    namespace_names,
    pointer_set,
    record_key,
    service_records,
    slice_records,
    zone_records,
)
from sampan.network.dns.wire import PTR, RecordSet, parents_of

log = logging.getLogger(__name__)

SERVICE_NAME_LABEL = "kubernetes.io/service-name"

Owner: TypeAlias = NamespacedName


class RecordTable:
    """All record sets of the cluster domain, and the PTR records of cluster IPs and endpoints.

    A change of a service replaces only the names of that service.
    """

    def __init__(self, *, zone: ZoneConfig, serial: int) -> None:
        self.zone = zone
        self.zone_name = zone.name
        self.record_sets: dict[bytes, RecordSet] = {}
        """Record sets by lower-cased question."""
        self.names: dict[bytes, int] = {}
        """Every name that exists in the cluster domain, with the number of record sets and namespaces at it and below
        it. The response for a name that exists, but not with the requested type, is NODATA; for others NXDOMAIN."""
        self._records: dict[Owner, ServiceRecords] = {}
        self._pointers: dict[bytes, dict[Owner, tuple[int, tuple[bytes, ...]]]] = {}
        own, self.soa = zone_records(zone, serial=serial)
        self._replace_names({}, own)
        self._namespaces: dict[str, tuple[bytes, bytes]] = {}

    def set_service(self, owner: Owner, records: ServiceRecords | None) -> None:
        """Replace the records of a service; None removes them."""
        old = self._records.get(owner, _EMPTY_RECORDS)
        new = records if records is not None else _EMPTY_RECORDS
        if new is _EMPTY_RECORDS:
            self._records.pop(owner, None)
        else:
            self._records[owner] = new
        self._replace_names(old.names, new.names)
        for name in old.pointers.keys() | new.pointers.keys():
            if old.pointers.get(name) != new.pointers.get(name):
                self._set_pointer(name, owner, new.pointers.get(name))

    def add_namespace(self, namespace: str) -> None:
        if namespace not in self._namespaces:
            self._namespaces[namespace] = names = namespace_names(namespace, self.zone)
            for name in names:
                self._count(name, 1)

    def remove_namespace(self, namespace: str) -> None:
        for name in self._namespaces.pop(namespace, ()):
            self._count(name, -1)

    def _replace_names(self, old: Names, new: Names) -> None:
        for name in old.keys() | new.keys():
            before, after = old.get(name, {}), new.get(name, {})
            for type in before.keys() - after.keys():
                del self.record_sets[record_key(name, type)]
                self._count(name, -1)
            for type, records in after.items():
                if type not in before:
                    self._count(name, 1)
                elif before[type] == records:
                    continue
                self.record_sets[record_key(name, type)] = records

    def _count(self, name: bytes, change: int) -> None:
        """Change the number of record sets and namespaces at a name, and at the names above it. A name exists while its
        number is not zero."""
        for existing in (name, *parents_of(name, self.zone_name)) if name != self.zone_name else (name,):
            count = self.names.get(existing, 0) + change
            if count:
                self.names[existing] = count
            else:
                del self.names[existing]

    def _set_pointer(self, name: bytes, owner: Owner, pointer: tuple[int, Iterable[bytes]] | None) -> None:
        owners = self._pointers.setdefault(name, {})
        if pointer is None:
            owners.pop(owner, None)
        else:
            owners[owner] = pointer[0], tuple(pointer[1])
        key = record_key(name, PTR)
        if not owners:
            del self._pointers[name]
            self.record_sets.pop(key, None)
            return
        rank = min(rank for rank, _ in owners.values())
        chosen = sorted(owner for owner in owners if owners[owner][0] == rank)
        targets = dict.fromkeys(target for owner in chosen for target in owners[owner][1])
        self.record_sets[key] = pointer_set(targets, self.zone)


_EMPTY_RECORDS = ServiceRecords()


class RecordSource:
    """Keeps a RecordTable in step with Services, EndpointSlices and Namespaces. `run()` returns only when cancelled.

    Objects that change while others are processed are processed once. What an EndpointSlice contributes is kept, so
    that a change of one slice does not read the others again.
    """

    def __init__(self, *, table: RecordTable, informers: InformerFactory, trace: PodAddressTrace) -> None:
        self._table, self._trace = table, trace
        self._services = informers.for_kind(Service)
        self._slices = informers.for_kind(EndpointSlice)
        self._namespaces = informers.for_kind(Namespace)
        self._slices_of: dict[Owner, dict[str, EndpointSlice]] = {}
        self._parsed: dict[tuple[Owner, str], tuple[EndpointSlice, bool, SliceRecords | None]] = {}
        self._changed: dict[Owner, None] = {}
        self._has_changed = asyncio.Event()
        self.synced = asyncio.Event()
        """Set once all objects that existed at the start are in the table."""

    async def run(self) -> None:
        stops: list[Callable[[], None]] = []
        try:
            for informer in (self._services, self._slices, self._namespaces):
                await informer.synced.wait()
            stops.append(self._namespaces.subscribe(self._on_namespace))
            stops.append(self._slices.subscribe(self._on_slice))
            stops.append(self._services.subscribe(self._on_service))
            while True:
                await self._update()
                self.synced.set()
                await self._has_changed.wait()
        finally:
            for stop in stops:
                stop()

    async def _update(self) -> None:
        self._has_changed.clear()
        time_slice = TimeSlice()
        while self._changed:
            owner = next(iter(self._changed))
            del self._changed[owner]
            try:
                self._update_service(owner)
            except Exception:
                log.exception("cannot make the DNS records of service %s/%s", *owner)
            await time_slice.pause_if_used_up()

    def _update_service(self, owner: Owner) -> None:
        service = self._services.lister.get_by_key(owner)
        if service is None:
            self._table.set_service(owner, None)
            return
        publishes_not_ready = service.spec.publishNotReadyAddresses
        before = {name: self._parsed.get((owner, name)) for name in self._slices_of.get(owner, ())}
        parts = [
            part
            for name in sorted(self._slices_of.get(owner, ()))
            if (part := self._part(owner, name, publishes_not_ready)) is not None
        ]
        self._table.set_service(owner, service_records(service, parts, self._table.zone))
        if self.synced.is_set():  # pods that are older than the server have no record
            self._trace_pods(
                service,
                owner,
                {name: first_records[0] if first_records else None for name, first_records in before.items()},
            )

    def _trace_pods(self, service: Service, owner: Owner, before: Mapping[str, EndpointSlice | None]) -> None:
        """Record in the flight recorder the pods that the name of the service leads to since this update.

        The name leads to their addresses, or to the cluster IP, which stays the same.
        """
        cluster_ip = service.spec.clusterIP
        target = "its address" if cluster_ip in ("", "None") else f"cluster IP {cluster_ip}"
        outcome = f"{owner.name}.{owner.namespace}.svc: {target}"
        for name, old in before.items():
            new = self._slices_of[owner][name]
            if new is not old:
                takes_not_ready = bool(service.spec.publishNotReadyAddresses)
                self._trace.record_endpoints(old, new, outcome, takes_not_ready=takes_not_ready)

    def _part(self, owner: Owner, name: str, publishes_not_ready: bool) -> SliceRecords | None:
        endpoint_slice = self._slices_of[owner][name]
        parsed = self._parsed.get((owner, name))
        if parsed is not None and parsed[0] is endpoint_slice and parsed[1] == publishes_not_ready:
            return parsed[2]
        part = slice_records(endpoint_slice, publishes_not_ready=publishes_not_ready)
        self._parsed[owner, name] = endpoint_slice, publishes_not_ready, part
        return part

    def _on_namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None:
            self._table.add_namespace(new.metadata.name)
        elif old is not None:
            self._table.remove_namespace(old.metadata.name)

    def _on_service(self, old: Service | None, new: Service | None) -> None:
        self._mark(key_of(new if new is not None else old))

    def _on_slice(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        if old is not None and (owner := _service_of(old)) is not None:
            slices = self._slices_of.get(owner, {})
            slices.pop(old.metadata.name, None)
            if not slices:
                self._slices_of.pop(owner, None)
            if new is None or _service_of(new) != owner:
                self._parsed.pop((owner, old.metadata.name), None)
            self._mark(owner)
        if new is not None and (owner := _service_of(new)) is not None:
            self._slices_of.setdefault(owner, {})[new.metadata.name] = new
            self._mark(owner)

    def _mark(self, owner: Owner) -> None:
        self._changed[owner] = None
        self._has_changed.set()


def _service_of(endpoint_slice: EndpointSlice) -> Owner | None:
    name = endpoint_slice.metadata.labels.get(SERVICE_NAME_LABEL)
    return NamespacedName(endpoint_slice.metadata.namespace, name) if name else None
