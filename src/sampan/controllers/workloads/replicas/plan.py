"""Planning of pod creations and deletions. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sampan.api.types.core_v1 import Pod
from sampan.controllers.ownership.batches import BURST
from sampan.controllers.ownership.ranking import first_to_go


@dataclass(frozen=True, slots=True)
class Plan:
    creations: int = 0
    deletions: Sequence[Pod] = ()


NOTHING = Plan()


def plan(active: Sequence[Pod], wanted: int, related: Callable[[], Iterable[Pod]], now: float) -> Plan:
    """Return the plan. `related` returns the pods whose nodes influence which pods are deleted first."""
    surplus = len(active) - wanted
    if surplus < 0:
        return Plan(creations=min(-surplus, BURST))
    if surplus > 0:
        return Plan(deletions=first_to_go(active, min(surplus, BURST), related=related(), now=now))
    return NOTHING


__all__ = ["BURST", "NOTHING", "Plan", "plan"]
