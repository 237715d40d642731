"""The resources that are used in scoring, and their requested and allocatable amounts."""

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
    """Return the requested amount including the pod, and the allocatable amount, of each row.

    Both are zero for an extended resource that the pod does not request.
    """
    at = table.resource(name)
    allocatable: Ints = table.allocatable[at, rows]
    if nonzero and at in (CPU_AT, MEMORY_AT):
        index = 0 if at == CPU_AT else 1
        return table.nonzero[index, rows] + needs.nonzero[index], allocatable
    request = needs.requests.get(name, 0)
    if not request and "/" in name:
        return np.zeros_like(allocatable), np.zeros_like(allocatable)
    return table.requested[at, rows] + request, allocatable
