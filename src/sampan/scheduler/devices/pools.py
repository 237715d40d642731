"""A resource pool as a node sees it: the devices of its latest generation that the node can use, or an error.

A slice is offered to one node, to the nodes that match a selector, or to all nodes. With `perDeviceNodeSelection` each
device of the slice is offered in this way. Nodes with the same offers share one object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sampan.api.types.core_v1 import NodeSelector
from sampan.api.types.resource_v1 import Device, ResourceSlice
from sampan.api.values.quantity import Quantity, parse


class PoolId(NamedTuple):
    driver: str
    name: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


class DeviceId(NamedTuple):
    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.driver, self.pool)


Amounts = tuple[tuple[tuple[str, str], Quantity], ...]
"""Counter amounts, keyed by the names of the counter set and the counter."""


@dataclass(frozen=True, eq=False, slots=True)
class DeviceOffer:
    """Devices of one slice that are offered to the same nodes."""

    slice: ResourceSlice
    devices: Sequence[Device]
    node: str
    """The only node that can use the devices; empty if several may."""
    selector: NodeSelector | None
    """Selects the nodes that can use the devices; None with an empty `node` stands for all nodes."""
    place: int = 0
    """The index in the slice of the first device."""


class CandidateDevice:
    """A device that a node can use."""

    __slots__ = ("consumed", "device", "id", "is_shared", "matched", "node", "selector")

    def __init__(self, offer: DeviceOffer, device: Device) -> None:
        spec = offer.slice.spec
        self.id = DeviceId(spec.driver, spec.pool.name, device.name)
        self.device, self.node, self.selector = device, offer.node, offer.selector
        self.is_shared = bool(device.allowMultipleAllocations)
        self.consumed = list_consumed_counters(device)
        self.matched: dict[str, bool | str] = {}
        """For each CEL expression, whether it matches this device, or the error message of its evaluation."""


@dataclass(eq=False, slots=True)
class PoolView:
    """A pool as some nodes see it."""

    id: PoolId
    error: str = ""
    """Why no device of the pool can be allocated at the moment."""
    candidates: list[CandidateDevice] = field(default_factory=list)
    counters: Mapping[tuple[str, str], Quantity] = field(default_factory=dict)
    """The shared counters of the pool while none of its devices is allocated."""
    consumers: Mapping[str, Amounts] = field(default_factory=dict)
    """The counter amounts that each device of the pool consumes, including devices of other nodes."""

    has_conditions: bool = False
    """Whether a device of these slices has binding conditions."""

    @property
    def order(self) -> tuple[bool, PoolId]:
        """The sort key of pools: those with binding conditions come last."""
        return self.has_conditions, self.id


UPDATING, INVALID = "updated", "invalid"


def offers(resource_slice: ResourceSlice) -> Iterator[DeviceOffer]:
    spec = resource_slice.spec
    if spec.perDeviceNodeSelection:
        for index, device in enumerate(spec.devices):
            if device.nodeName or device.allNodes or device.nodeSelector is not None:
                selector = None if device.allNodes else device.nodeSelector
                yield DeviceOffer(resource_slice, [device], device.nodeName or "", selector, index)
    elif spec.nodeName or spec.allNodes or spec.nodeSelector is not None:
        yield DeviceOffer(
            resource_slice, spec.devices, spec.nodeName or "", None if spec.allNodes else spec.nodeSelector
        )


def view_pool(id: PoolId, all_slices: Iterable[ResourceSlice], offered: Sequence[DeviceOffer]) -> PoolView | None:
    """Return a node's view of the pool, where `offered` are the offers to the node.

    Return None if the offered slices are incomplete and belong to an outdated generation.
    """
    slices = list(all_slices)
    newest = max(
        [offer.slice.spec.pool.generation for offer in offered]
        + [resource_slice.spec.pool.generation for resource_slice in slices if resource_slice.spec.sharedCounters]
    )
    current = [resource_slice for resource_slice in slices if resource_slice.spec.pool.generation == newest]
    visible = {
        resource_slice.metadata.name: resource_slice for resource_slice in current if resource_slice.spec.sharedCounters
    }
    offered = [offer for offer in offered if offer.slice.spec.pool.generation == newest]
    visible |= {offer.slice.metadata.name: offer.slice for offer in offered}
    if not _is_complete(visible.values()):
        if any(resource_slice.spec.pool.generation > newest for resource_slice in slices):
            return None
        if not _is_complete(current):
            return PoolView(id, UPDATING)
    return _build_view(id, current, visible.values(), offered)


def _is_complete(slices: Iterable[ResourceSlice]) -> bool:
    all_slices = list(slices)
    return (
        len(all_slices)
        == min(all_slices, key=lambda resource_slice: resource_slice.metadata.name).spec.pool.resourceSliceCount
    )


def _build_view(
    id: PoolId, current: Sequence[ResourceSlice], visible: Iterable[ResourceSlice], offered: Sequence[DeviceOffer]
) -> PoolView:
    names = [device.name for item in visible if not item.spec.sharedCounters for device in item.spec.devices]
    sets = [entry for item in current for entry in item.spec.sharedCounters]
    counters = {(entry.name, name): parse(item.value) for entry in sets for name, item in entry.counters.items()}
    consumers = {device.name: list_consumed_counters(device) for item in current for device in item.spec.devices}
    is_sound = len(set(names)) == len(names) and len({entry.name for entry in sets}) == len(sets)
    if not is_sound or any(key not in counters for amounts in consumers.values() for key, _ in amounts):
        return PoolView(id, INVALID)
    candidates = [
        CandidateDevice(offer, device)
        for offer in sorted(offered, key=lambda entry: (entry.slice.metadata.name, entry.place))
        for device in offer.devices
    ]
    consumers = {name: amounts for name, amounts in consumers.items() if amounts}
    has_conditions = any(device.bindingConditions for item in visible for device in item.spec.devices)
    return PoolView(id, "", candidates, counters, consumers, has_conditions)


def list_consumed_counters(device: Device) -> Amounts:
    return tuple(
        ((consumption.counterSet, name), parse(amount.value))
        for consumption in device.consumesCounters
        for name, amount in consumption.counters.items()
    )
