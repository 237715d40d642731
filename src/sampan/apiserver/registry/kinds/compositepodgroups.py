"""CompositePodGroup: groups of pods that are scheduled together. Its feature gate has the same name."""

from sampan.apiserver.registry.behavior import GenericStrategy, status_behavior
from sampan.apiserver.registry.kinds.podgroups import POLICY, WORKLOAD
from sampan.apiserver.tables.columns import AGE, NAME


class CompositePodGroupStrategy(GenericStrategy):
    columns = (NAME, POLICY, WORKLOAD, AGE)


BEHAVIOR = status_behavior(
    CompositePodGroupStrategy(has_status=True, allow_unconditional_update=False), keeps_metadata=True
)
