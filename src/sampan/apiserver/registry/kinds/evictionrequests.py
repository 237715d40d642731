"""EvictionRequest: a requester's intent to evict a pod. Its feature gate is EvictionRequestAPI."""

from __future__ import annotations

from typing import Any

from sampan.api.semantics.conditions import is_true
from sampan.apiserver.registry.behavior import GenericStrategy, status_behavior
from sampan.apiserver.registry.strategy import Column
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_FINAL = ("TargetEvicted", "Failed")


def format_status(obj: Any, now: float) -> str:
    for condition in _FINAL:
        if is_true(obj.status.conditions, condition):
            reason = next(entry.reason for entry in obj.status.conditions if entry.type == condition)
            return f"{condition} ({reason})"
    return "Progressing" if obj.status.observedGeneration else "Pending"


TARGET_COLUMNS = (
    Column(
        "Target",
        lambda obj, now: obj.spec.target.pod.name if obj.spec.target.pod is not None else cells.UNSET,
        field="spec.target",
    ),
    Column(
        "Target Type",
        lambda obj, now: "Pod" if obj.spec.target.pod is not None else cells.UNSET,
        field="spec.target",
    ),
    Column("Status", format_status, field="status.conditions"),
)


class EvictionRequestStrategy(GenericStrategy):
    columns = (
        NAME,
        *TARGET_COLUMNS,
        Column("Requester", lambda request, now: request.spec.requester, field="spec.requester"),
        Column("Intent", lambda request, now: request.spec.intent, field="spec.intent"),
        AGE,
    )


BEHAVIOR = status_behavior(
    EvictionRequestStrategy(has_status=True, allow_unconditional_update=False, counts_generation=True),
    keeps_metadata=True,
)
