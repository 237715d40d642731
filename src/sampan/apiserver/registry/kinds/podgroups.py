"""PodGroup: pods that are scheduled together. Its feature gate is GenericWorkload."""

from __future__ import annotations

from sampan.api.types.scheduling_v1beta1 import DisruptionMode, PodGroup, SingleDisruptionMode
from sampan.apiserver.registry.behavior import GenericStrategy, status_behavior
from sampan.apiserver.registry.strategy import Column
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

INITIALLY_SCHEDULED, DISRUPTION_TARGET = "PodGroupInitiallyScheduled", "DisruptionTarget"
POLICY = Column(
    "Policy",
    lambda group, now: "Gang" if group.spec.schedulingPolicy.gang is not None else "Basic",
    field="spec.schedulingPolicy",
)
WORKLOAD = Column(
    "Workload",
    lambda group, now: group.spec.workloadRef.workloadName if group.spec.workloadRef is not None else cells.NONE,
    description="Name of the referenced Workload object",
)


def _status(group: PodGroup, now: float) -> str:
    conditions = {condition.type: condition for condition in group.status.conditions}
    if (target := conditions.get(DISRUPTION_TARGET)) is not None:
        return target.reason
    if (scheduled := conditions.get(INITIALLY_SCHEDULED)) is not None:
        return "Scheduled" if scheduled.status == "True" else "Unschedulable"
    return "Pending"


class PodGroupStrategy(GenericStrategy):
    columns = (NAME, POLICY, WORKLOAD, Column("Status", _status, description="Status of the PodGroup"), AGE)

    def default(self, obj: PodGroup) -> None:
        if obj.spec.disruptionMode is None:
            obj.spec.disruptionMode = DisruptionMode(single=SingleDisruptionMode())


BEHAVIOR = status_behavior(PodGroupStrategy(has_status=True, allow_unconditional_update=False), keeps_metadata=True)
