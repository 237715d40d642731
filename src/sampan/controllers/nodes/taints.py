"""The taints that controllers set on nodes, how they are written, and how long a pod may stay on a tainted node."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from sampan.api.semantics.taints import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NO_SCHEDULE,
    NOT_READY,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
    tolerates,
)
from sampan.api.types.core_v1 import Node, Taint, Toleration
from sampan.api.values import times
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, PatchType

_TAINT_BY_CONDITION: Final[Mapping[tuple[str, str], str]] = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): MEMORY_PRESSURE,
    ("DiskPressure", "True"): DISK_PRESSURE,
    ("NetworkUnavailable", "True"): NETWORK_UNAVAILABLE,
    ("PIDPressure", "True"): PID_PRESSURE,
}
_MANAGED_TAINTS: Final = frozenset({*_TAINT_BY_CONDITION.values(), UNSCHEDULABLE})


def has_taint(taints: Iterable[Taint], key: str, effect: str) -> bool:
    return any(taint.key == key and taint.effect == effect for taint in taints)


def diff_scheduling_taints(node: Node) -> tuple[list[str], list[str]]:
    """Return the keys of the NoSchedule taints to add according to the node's conditions, and of those to remove."""
    conditions = ((condition.type, condition.status) for condition in node.status.conditions)
    desired = [_TAINT_BY_CONDITION[pair] for pair in conditions if pair in _TAINT_BY_CONDITION]
    if node.spec.unschedulable:
        desired.append(UNSCHEDULABLE)
    present = [taint.key for taint in node.spec.taints if taint.effect == NO_SCHEDULE and taint.key in _MANAGED_TAINTS]
    return [key for key in desired if key not in present], [key for key in present if key not in desired]


def update_taints(
    taints: Sequence[Taint], effect: str, *, add: Sequence[str] = (), remove: Sequence[str] = (), now: float
) -> list[Taint]:
    """Return the taints with the `add` keys added, or replaced with a new timeAdded, and the `remove` keys removed."""
    stamp = times.format_time(now)
    new = {key: Taint(key=key, effect=effect, timeAdded=stamp) for key in add}
    remaining_taints = [
        new.pop(taint.key, taint) if taint.effect == effect else taint
        for taint in taints
        if not (taint.effect == effect and taint.key in remove)
    ]
    return [*remaining_taints, *new.values()]


def taint_patch(node: Node, taints: Sequence[Taint]) -> Mapping[str, Any]:
    """Return a merge patch that sets the taints; the API server rejects it if the node has changed since."""
    values = [msgspec.to_builtins(taint) for taint in taints] or None
    return {"metadata": {"resourceVersion": node.metadata.resourceVersion}, "spec": {"taints": values}}


def toleration_s(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> float | None:
    """Return how many seconds a pod may stay on a node with these taints: 0 if one is not tolerated, None if unlimited.

    Of several tolerations of a taint the first counts; of several taints the one tolerated for the shortest time.
    """
    shortest: float | None = None
    for taint in taints:
        toleration = next((candidate for candidate in tolerations if tolerates(candidate, taint)), None)
        if toleration is None:
            return 0
        if toleration.tolerationSeconds is not None:
            seconds = max(toleration.tolerationSeconds, 0)
            shortest = seconds if shortest is None else min(shortest, seconds)
    return shortest


_ATTEMPTS = 5


class TaintWriter:
    def __init__(self, *, client: Client, clock: Clock) -> None:
        self._nodes, self._clock = client.for_kind(Node), clock

    async def change(self, node: Node, effect: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add and remove taints with these keys and this effect, retrying on conflict.

        Nothing is written if nothing changes or the node does not exist.
        """
        for attempt in range(_ATTEMPTS):
            desired = update_taints(node.spec.taints, effect, add=add, remove=remove, now=self._clock.now())
            if desired == node.spec.taints:
                return
            try:
                patch = taint_patch(node, desired)
                await self._nodes.patch(node.metadata.name, patch, type=PatchType.MERGE)
                return
            except errors.NotFound:
                return
            except errors.Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
            try:
                node = await self._nodes.get(node.metadata.name)
            except errors.NotFound:
                return
