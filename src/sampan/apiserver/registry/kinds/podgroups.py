"""PodGroup: pods that are scheduled together. Its feature gate is GenericWorkload."""

from typing import Any

from sampan.api.types.scheduling_v1beta1 import DisruptionMode, SingleDisruptionMode
from sampan.apiserver.registry.behavior import GenericStrategy, status_behavior


class PodGroupStrategy(GenericStrategy):
    def default(self, obj: Any) -> None:
        if obj.spec.disruptionMode is None:
            obj.spec.disruptionMode = DisruptionMode(single=SingleDisruptionMode())


BEHAVIOR = status_behavior(PodGroupStrategy(has_status=True), keeps_metadata=True)
