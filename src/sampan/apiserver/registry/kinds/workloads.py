"""Workload: templates of groups of pods. Its feature gate is GenericWorkload."""

from sampan.apiserver.registry.behavior import GenericStrategy, ResourceBehavior
from sampan.apiserver.tables.columns import AGE, NAME


class WorkloadStrategy(GenericStrategy):
    columns = (NAME, AGE)


BEHAVIOR = ResourceBehavior(strategy=WorkloadStrategy(has_status=False, allow_unconditional_update=False))
