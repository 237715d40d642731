"""endpointslice-controller, which maintains the endpoint slices of every service that has a selector."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sampan.api.types.core_v1 import Node, Pod, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.fan_out import for_each, raise_first
from sampan.controllers.namespace_phase import is_namespace_terminating
from sampan.controllers.services.pods import Add, PodFeed, TriggerTimes, has_many, pods_of, takes_pods
from sampan.controllers.services.slice_content import (
    MANAGER,
    DesiredEndpoints,
    SliceChanges,
    SliceContent,
    belongs_to_another,
    desired_endpoints,
    families_of,
    labels_of,
    pack,
    service_keys,
    slice_of,
)
from sampan.host.worker_thread import WorkerThread
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.control_loop.own_writes import DependentWrites
from sampan.machinery.decisions import note_decision
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.machinery.telemetry.flight_recorder import PodAddressTrace


@dataclass(slots=True)
class SlicePlan:
    write: list[EndpointSlice] = field(default_factory=list)
    """Slices to create if they have no name, to update otherwise."""
    delete: list[EndpointSlice] = field(default_factory=list)


def by_service(obj: Any) -> Iterable[Hashable]:
    """Return the key of the service of a slice that this controller manages."""
    return service_keys(obj, MANAGER)


def plan(
    service: Service, existing: Sequence[EndpointSlice], packings: dict[str, SliceChanges], changed_at: str
) -> SlicePlan:
    """Return the writes that make the slices match the packing of each address family and the service's labels."""
    changes, labels = SlicePlan(), labels_of(service)
    for family, packing in packings.items():
        contents = [*packing.changed, *packing.new]
        contents += [
            SliceContent(endpoint_slice, endpoint_slice.ports or [], endpoint_slice.endpoints or [])
            for endpoint_slice in packing.same
            if endpoint_slice.metadata.labels != labels
        ]
        changes.write += [slice_of(service, family, content, labels, changed_at) for content in contents]
        changes.delete += packing.unneeded
    changes.delete += [endpoint_slice for endpoint_slice in existing if endpoint_slice.addressType not in packings]
    return changes


class EndpointSliceController:
    name = "endpointslice-controller"

    def __init__(
        self,
        *,
        client: Client,
        informers: InformerFactory,
        events: EventRecorder,
        feed: PodFeed,
        writes: DependentWrites,
        trace: PodAddressTrace,
        maximum: int,
    ) -> None:
        self._client, self._events, self._feed, self._writes, self._maximum = (
            client.for_kind(EndpointSlice),
            events,
            feed,
            writes,
            maximum,
        )
        self._trace = trace
        self._services, self._pods = informers.for_kind(Service).lister, informers.for_kind(Pod).lister
        self._nodes = informers.for_kind(Node).lister
        self._informer = informers.for_kind(EndpointSlice)
        self._slices = self._informer.lister
        self._slices.add_index(by_service)
        self._times = TriggerTimes()
        self._worker = WorkerThread("sampan-endpoint-slices")
        self._awaiting: dict[str, set[NamespacedName]] = {}
        """Services that omit pods because their node is not in the cache yet, by node name."""
        self.watches = (
            Watch(resource_of(Service), lambda service: (key_of(service),)),
            Watch(resource_of(Node), self._take_services_awaiting),
            Watch(resource_of(Pod)),
            Watch(resource_of(EndpointSlice)),
        )

    def feed(self, add: Add) -> None:
        self._feed.start(add)

        def on_slice_changed(old: EndpointSlice | None, new: EndpointSlice | None) -> None:
            if not self._writes.observe(old, new):
                for key in {*(by_service(new) if new else ()), *(by_service(old) if old else ())}:
                    add(key)

        self._informer.subscribe(on_slice_changed)

    def _take_services_awaiting(self, node: Node) -> Iterable[Hashable]:
        return self._awaiting.pop(node.metadata.name, ())

    async def reconcile(self, key: NamespacedName) -> float | None:
        service = self._services.get_by_key(key)
        if service is None:
            self._times.forget(key)
            self._writes.forget(key)
            return None
        if not takes_pods(service):
            return None
        if wait_s := self._feed.wait_s(key) or self._writes.defer(key):
            return wait_s
        try:
            await self._carry_out(key, await self._plan(key, service), service)
        except Exception as error:
            message = f"Error updating Endpoint Slices for Service {key}: {error}"
            self._events.event(service, WARNING, "FailedToUpdateEndpointSlices", message)
            raise
        return None

    async def _plan(self, key: NamespacedName, service: Service) -> SlicePlan:
        pods = pods_of(service, self._pods)
        existing = [
            endpoint_slice
            for endpoint_slice in self._slices.find(by_service, key)
            if endpoint_slice.metadata.deletionTimestamp is None and not belongs_to_another(endpoint_slice, service)
        ]
        changed_at = self._times.compute_trigger_time(service, pods)
        desired = {}
        packings: dict[str, SliceChanges] = {}

        def pack_all() -> SlicePlan:
            for family in families_of(service):
                desired[family] = desired_endpoints(service, pods, family, self._nodes.get)
                ours = [endpoint_slice for endpoint_slice in existing if endpoint_slice.addressType == family]
                packings[family] = pack(ours, desired[family].groups, self._maximum)
            return plan(service, existing, packings, changed_at)

        result = await self._worker.run(pack_all) if has_many(pods, service) else pack_all()
        for family_endpoints in desired.values():
            self._report(key, service, family_endpoints)
        return result

    def _report(self, key: NamespacedName, service: Service, desired: DesiredEndpoints) -> None:
        """Record which pods are omitted, and why."""
        for name in desired.missing_nodes:
            self._awaiting.setdefault(name, set()).add(key)
        if desired.omitted:
            text = f"{len(desired.omitted)} pods have no endpoints: the endpoints would have too many different ports"
            self._events.event(service, WARNING, "TooManyPorts", text)

    async def _carry_out(self, key: NamespacedName, plan: SlicePlan, service: Service) -> None:
        async def write(endpoint_slice: EndpointSlice) -> None:
            before = self._slices.get_by_key(key_of(endpoint_slice)) if endpoint_slice.metadata.name else None
            if endpoint_slice.metadata.name:
                written = await self._client.update(endpoint_slice)
            elif service.metadata.deletionTimestamp is None:
                written = await self._client.create(endpoint_slice)
            else:
                return
            self._writes.record_write(key, written, self._slices.get_by_key(key_of(written)))
            self._trace.record_endpoints(before, written, f"{written.metadata.name} of service {key.name}")

        async def delete(endpoint_slice: EndpointSlice) -> None:
            try:
                await self._client.delete(endpoint_slice.metadata.name, endpoint_slice.metadata.namespace)
            except errors.NotFound:
                return

        if plan.write or plan.delete:
            have = f"{len(self._slices.find(by_service, key))} slices"
            note_decision("slices of its ready pods", have, f"write {len(plan.write)}, delete {len(plan.delete)}")
        failures = await for_each(plan.write, write) + await for_each(plan.delete, delete)
        raise_first([error for error in failures if not is_namespace_terminating(error)])


def make(context: ControllerContext) -> EndpointSliceController:
    config = context.config
    return context.build(
        EndpointSliceController,
        feed=PodFeed(
            informers=context.informers, clock=context.clock, batch_s=config.endpointslice_updates_batch_period_s
        ),
        writes=DependentWrites(clock=context.clock),
        trace=PodAddressTrace(
            recorder=context.recorder, component=EndpointSliceController.name, action="add to EndpointSlice"
        ),
        maximum=config.max_endpoints_per_slice,
    )
