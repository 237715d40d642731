"""Packing of endpoints into slices with as few changes to existing slices as possible. Pure.

First, undesired endpoints are removed from their slices and changed ones are updated in place. New endpoints fill up
the slices that change anyway. The rest goes into one unchanged slice with room for all of it, or else into new slices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sampan.api.types.discovery_v1 import Endpoint, EndpointPort, EndpointSlice
from sampan.controllers.services.slice_endpoints import Group, Identity, PortsKey, identity, ports_key


@dataclass(slots=True)
class Content:
    """The desired content of an existing or a new slice."""

    found: EndpointSlice | None
    ports: list[EndpointPort]
    endpoints: list[Endpoint]


@dataclass(slots=True)
class Packing:
    same: list[EndpointSlice] = field(default_factory=list)
    changed: list[Content] = field(default_factory=list)
    new: list[Content] = field(default_factory=list)
    unneeded: list[EndpointSlice] = field(default_factory=list)

    def __iadd__(self, other: Packing) -> Packing:
        self.same += other.same
        self.changed += other.changed
        self.new += other.new
        self.unneeded += other.unneeded
        return self


def pack(existing: Sequence[EndpointSlice], wanted: Mapping[PortsKey, Group], most: int) -> Packing:
    """Pack the slices of one address family. Without endpoints, one slice without endpoints and ports remains."""
    by_ports: dict[PortsKey, list[EndpointSlice]] = {}
    for endpoint_slice in existing:
        by_ports.setdefault(ports_key(endpoint_slice.ports or ()), []).append(endpoint_slice)
    packing = Packing()
    for key, group in wanted.items():
        packing += _pack_group(by_ports.pop(key, ()), group, most)
    packing.unneeded += [endpoint_slice for slices in by_ports.values() for endpoint_slice in slices]
    if not (packing.same or packing.changed or packing.new):
        _keep_a_place(packing)
    return _recycled(packing)


def _keep_a_place(made: Packing) -> None:
    placeholder = next(
        (candidate for candidate in made.unneeded if not candidate.endpoints and not candidate.ports), None
    )
    if placeholder is None:
        made.new.append(Content(None, [], []))
    else:
        made.unneeded.remove(placeholder)
        made.same.append(placeholder)


def _recycled(made: Packing) -> Packing:
    """Reuse slices to be deleted for new content."""
    while made.new and made.unneeded:
        content = made.new.pop()
        content.found = made.unneeded.pop(0)
        made.changed.append(content)
    return made


def _pack_group(existing: Sequence[EndpointSlice], group: Group, most: int) -> Packing:
    waiting, packing = dict(group.endpoints), Packing()
    for endpoint_slice in existing:
        kept = _kept(endpoint_slice, waiting)
        if not kept:
            packing.unneeded.append(endpoint_slice)
        elif kept == endpoint_slice.endpoints:
            packing.same.append(endpoint_slice)
        else:
            packing.changed.append(Content(endpoint_slice, endpoint_slice.ports or [], kept))
    for content in packing.changed:
        _fill(content, waiting, most)
    while waiting:
        content = _roomiest(packing, len(waiting), most) or _added(packing, group.ports)
        _fill(content, waiting, most)
    return packing


def _kept(found: EndpointSlice, waiting: dict[Identity, Endpoint]) -> list[Endpoint]:
    """Return the slice's endpoints that are still desired, in their new state, and remove them from `waiting`."""
    return [now for endpoint in found.endpoints or () if (now := waiting.pop(identity(endpoint), None)) is not None]


def _fill(content: Content, waiting: dict[Identity, Endpoint], most: int) -> None:
    while waiting and len(content.endpoints) < most:
        content.endpoints.append(waiting.pop(next(iter(waiting))))


def _roomiest(made: Packing, needed: int, most: int) -> Content | None:
    """Move the fullest unchanged slice with room for all remaining endpoints to the changed ones and return it."""
    fitting = [endpoint_slice for endpoint_slice in made.same if len(endpoint_slice.endpoints or ()) + needed <= most]
    if not fitting:
        return None
    best = max(fitting, key=lambda endpoint_slice: len(endpoint_slice.endpoints or ()))
    made.same.remove(best)
    made.changed.append(Content(best, best.ports or [], list(best.endpoints or ())))
    return made.changed[-1]


def _added(made: Packing, ports: list[EndpointPort]) -> Content:
    made.new.append(Content(None, ports, []))
    return made.new[-1]
