"""Which resources count when nodes are compared, and what would be asked of them."""

from __future__ import annotations

import msgspec
import numpy as np

from sampan.scheduler.arrays import Ints, Rows
from sampan.scheduler.needs import CPU, MEMORY, Needs
from sampan.scheduler.node_table import CPU_AT, MEMORY_AT, NodeTable


class ResourceSpec(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    weight: int = 1


DEFAULT_RESOURCES = (ResourceSpec(CPU), ResourceSpec(MEMORY))


def considered(table: NodeTable, needs: Needs, name: str, rows: Rows, *, nonzero: bool) -> tuple[Ints, Ints]:
    """What would be asked of a resource with the pod, and what there is. A special resource that the pod does not ask
    for counts as absent."""
    at = table.resource(name)
    allocatable: Ints = table.allocatable[at, rows]
    if nonzero and at in (CPU_AT, MEMORY_AT):
        index = 0 if at == CPU_AT else 1
        return table.nonzero[index, rows] + needs.nonzero[index], allocatable
    wanted = needs.requests.get(name, 0)
    if not wanted and "/" in name:
        return np.zeros_like(allocatable), np.zeros_like(allocatable)
    return table.requested[at, rows] + wanted, allocatable


__all__ = ["DEFAULT_RESOURCES", "ResourceSpec", "considered"]
