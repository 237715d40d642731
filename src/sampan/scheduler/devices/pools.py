"""What a pool of devices is to a node: the devices that it can use, in the pool's newest state, or why it can use none.

A slice is offered to one node, to nodes that a selector means, or to all of them; with `perDeviceNodeSelection` each of
its devices is. What several nodes are offered alike is one object for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sampan.api.quantity import Quantity, parse
from sampan.api.types.core_v1 import NodeSelector
from sampan.api.types.resource_v1 import Device, ResourceSlice


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
"""Of counters, by the name of the set and of the counter."""


@dataclass(frozen=True, eq=False, slots=True)
class Offer:
    """Devices of one slice, to the same nodes."""

    slice: ResourceSlice
    devices: Sequence[Device]
    node: str
    """The only node that has them; empty if others may."""
    selector: NodeSelector | None
    """Nodes that have them; None with an empty `node`: all."""
    place: int = 0
    """Of the first of them in the slice."""


class Candidate:
    """A device that a node can use."""

    __slots__ = ("consumed", "device", "id", "is_shared", "matched", "node", "selector")

    def __init__(self, offer: Offer, device: Device) -> None:
        spec = offer.slice.spec
        self.id = DeviceId(spec.driver, spec.pool.name, device.name)
        self.device, self.node, self.selector = device, offer.node, offer.selector
        self.is_shared = bool(device.allowMultipleAllocations)
        self.consumed = consumed(device)
        self.matched: dict[str, bool | str] = {}
        """By expression, whether it is about this device, or why that cannot be told."""


@dataclass(eq=False, slots=True)
class PoolView:
    """A pool as some nodes see it."""

    id: PoolId
    fault: str = ""
    """Why nothing is to be had from it at the moment."""
    candidates: list[Candidate] = field(default_factory=list)
    counters: Mapping[tuple[str, str], Quantity] = field(default_factory=dict)
    """What devices share, if none of them is taken."""
    consumers: Mapping[str, Amounts] = field(default_factory=dict)
    """What devices of the pool take of that, those of other nodes too."""

    has_conditions: bool = False
    """Some device of these slices has to be made ready."""

    @property
    def order(self) -> tuple[bool, PoolId]:
        """Pools with devices that have to be made ready come last."""
        return self.has_conditions, self.id


UPDATING, INVALID = "updated", "invalid"


def offers(one: ResourceSlice) -> Iterator[Offer]:
    spec = one.spec
    if spec.perDeviceNodeSelection:
        for place, device in enumerate(spec.devices):
            if device.nodeName or device.allNodes or device.nodeSelector is not None:
                selector = None if device.allNodes else device.nodeSelector
                yield Offer(one, [device], device.nodeName or "", selector, place)
    elif spec.nodeName or spec.allNodes or spec.nodeSelector is not None:
        yield Offer(one, spec.devices, spec.nodeName or "", None if spec.allNodes else spec.nodeSelector)


def viewed(id: PoolId, every: Iterable[ResourceSlice], offered: Sequence[Offer]) -> PoolView | None:
    """The pool, of all whose slices these are, by what of it is offered to a node; None if that is about to go."""
    slices = list(every)
    newest = max(
        [offer.slice.spec.pool.generation for offer in offered]
        + [one.spec.pool.generation for one in slices if one.spec.sharedCounters]
    )
    current = [one for one in slices if one.spec.pool.generation == newest]
    near = {one.metadata.name: one for one in current if one.spec.sharedCounters}
    offered = [offer for offer in offered if offer.slice.spec.pool.generation == newest]
    near |= {offer.slice.metadata.name: offer.slice for offer in offered}
    if not _is_whole(near.values()):
        if any(one.spec.pool.generation > newest for one in slices):
            return None
        if not _is_whole(current):
            return PoolView(id, UPDATING)
    return _valid(id, current, near.values(), offered)


def _is_whole(slices: Iterable[ResourceSlice]) -> bool:
    found = list(slices)
    return len(found) == min(found, key=lambda one: one.metadata.name).spec.pool.resourceSliceCount


def _valid(
    id: PoolId, current: Sequence[ResourceSlice], near: Iterable[ResourceSlice], offered: Sequence[Offer]
) -> PoolView:
    names = [device.name for one in near if not one.spec.sharedCounters for device in one.spec.devices]
    sets = [found for one in current for found in one.spec.sharedCounters]
    counters = {(found.name, name): parse(one.value) for found in sets for name, one in found.counters.items()}
    consumers = {device.name: consumed(device) for one in current for device in one.spec.devices}
    is_sound = len(set(names)) == len(names) and len({found.name for found in sets}) == len(sets)
    if not is_sound or any(key not in counters for amounts in consumers.values() for key, _ in amounts):
        return PoolView(id, INVALID)
    candidates = [
        Candidate(offer, device)
        for offer in sorted(offered, key=lambda found: (found.slice.metadata.name, found.place))
        for device in offer.devices
    ]
    consumers = {name: amounts for name, amounts in consumers.items() if amounts}
    has_conditions = any(device.bindingConditions for one in near for device in one.spec.devices)
    return PoolView(id, "", candidates, counters, consumers, has_conditions)


def consumed(device: Device) -> Amounts:
    return tuple(
        ((one.counterSet, name), parse(amount.value))
        for one in device.consumesCounters
        for name, amount in one.counters.items()
    )


__all__ = [
    "INVALID",
    "UPDATING",
    "Amounts",
    "Candidate",
    "DeviceId",
    "Offer",
    "PoolId",
    "PoolView",
    "consumed",
    "offers",
    "viewed",
]
