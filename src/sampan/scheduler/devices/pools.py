"""The devices that there are for a node, pool by pool, in the newest state of each pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from sampan.api.types.core_v1 import NodeSelector
from sampan.api.types.resource_v1 import Counter, Device, ResourceSlice

Matches = Callable[[NodeSelector], bool]
"""Whether the node is one that a selector means."""


class DeviceId(NamedTuple):
    driver: str
    pool: str
    device: str


class Candidate(NamedTuple):
    id: DeviceId
    device: Device
    node: str
    """The only node that has it; empty if others do too."""
    selector: NodeSelector | None
    """Nodes that have it; None with an empty `node`: all."""


@dataclass(slots=True)
class Pool:
    driver: str
    name: str
    generation: int = -1
    wanted: int = 0
    """How many slices it is made of."""
    slices: list[ResourceSlice] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return len(self.slices) == self.wanted

    @property
    def counters(self) -> dict[str, dict[str, Counter]]:
        """Shared by devices, by the name of their set."""
        return {found.name: found.counters for one in self.slices for found in one.spec.sharedCounters}


def newest(slices: Iterable[ResourceSlice]) -> list[Pool]:
    """Slices of older generations are what a driver is about to replace."""
    pools: dict[tuple[str, str], Pool] = {}
    for one in sorted(slices, key=lambda found: found.metadata.name):
        spec = one.spec
        pool = pools.setdefault((spec.driver, spec.pool.name), Pool(spec.driver, spec.pool.name))
        if spec.pool.generation > pool.generation:
            pool.generation, pool.wanted, pool.slices = spec.pool.generation, spec.pool.resourceSliceCount, []
        if spec.pool.generation == pool.generation:
            pool.slices.append(one)
    return [pools[key] for key in sorted(pools)]


def nodes_with_devices(pools: Iterable[Pool]) -> set[str] | None:
    """The nodes that have devices; None if there are some that are not bound to one node."""
    found = set()
    for pool in pools:
        for one in pool.slices:
            if not one.spec.nodeName:
                return None
            found.add(one.spec.nodeName)
    return found


def on_node(pool: Pool, node: str, matches: Matches) -> list[Candidate]:
    """The devices of a pool that the node can use."""
    found = []
    for one in pool.slices:
        spec = one.spec
        if not spec.perDeviceNodeSelection and not _is_here(spec, node, matches):
            continue
        for device in spec.devices:
            where = device if spec.perDeviceNodeSelection else spec
            if _is_here(where, node, matches):
                id = DeviceId(spec.driver, spec.pool.name, device.name)
                found.append(Candidate(id, device, where.nodeName or "", where.nodeSelector))
    return found


def _is_here(where: object, node: str, matches: Matches) -> bool:
    name: str | None = getattr(where, "nodeName", None)
    selector: NodeSelector | None = getattr(where, "nodeSelector", None)
    if name:
        return name == node
    if selector is not None:
        return matches(selector)
    return bool(getattr(where, "allNodes", None))


__all__ = ["Candidate", "DeviceId", "Matches", "Pool", "newest", "nodes_with_devices", "on_node"]
