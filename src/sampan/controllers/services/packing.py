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
    for found in existing:
        by_ports.setdefault(ports_key(found.ports or ()), []).append(found)
    made = Packing()
    for key, group in wanted.items():
        made += _pack_group(by_ports.pop(key, ()), group, most)
    made.unneeded += [found for left in by_ports.values() for found in left]
    if not (made.same or made.changed or made.new):
        _keep_a_place(made)
    return _recycled(made)


def _keep_a_place(made: Packing) -> None:
    place = next((found for found in made.unneeded if not found.endpoints and not found.ports), None)
    if place is None:
        made.new.append(Content(None, [], []))
    else:
        made.unneeded.remove(place)
        made.same.append(place)


def _recycled(made: Packing) -> Packing:
    """Reuse slices to be deleted for new content."""
    while made.new and made.unneeded:
        content = made.new.pop()
        content.found = made.unneeded.pop(0)
        made.changed.append(content)
    return made


def _pack_group(existing: Sequence[EndpointSlice], group: Group, most: int) -> Packing:
    waiting, made = dict(group.endpoints), Packing()
    for found in existing:
        kept = _kept(found, waiting)
        if not kept:
            made.unneeded.append(found)
        elif kept == found.endpoints:
            made.same.append(found)
        else:
            made.changed.append(Content(found, found.ports or [], kept))
    for content in made.changed:
        _fill(content, waiting, most)
    while waiting:
        content = _roomiest(made, len(waiting), most) or _added(made, group.ports)
        _fill(content, waiting, most)
    return made


def _kept(found: EndpointSlice, waiting: dict[Identity, Endpoint]) -> list[Endpoint]:
    """Return the slice's endpoints that are still desired, in their new state, and remove them from `waiting`."""
    return [now for one in found.endpoints or () if (now := waiting.pop(identity(one), None)) is not None]


def _fill(content: Content, waiting: dict[Identity, Endpoint], most: int) -> None:
    while waiting and len(content.endpoints) < most:
        content.endpoints.append(waiting.pop(next(iter(waiting))))


def _roomiest(made: Packing, needed: int, most: int) -> Content | None:
    """Move the fullest unchanged slice with room for all remaining endpoints to the changed ones and return it."""
    fitting = [found for found in made.same if len(found.endpoints or ()) + needed <= most]
    if not fitting:
        return None
    best = max(fitting, key=lambda found: len(found.endpoints or ()))
    made.same.remove(best)
    made.changed.append(Content(best, best.ports or [], list(best.endpoints or ())))
    return made.changed[-1]


def _added(made: Packing, ports: list[EndpointPort]) -> Content:
    made.new.append(Content(None, ports, []))
    return made.new[-1]


__all__ = ["Content", "Packing", "pack"]
