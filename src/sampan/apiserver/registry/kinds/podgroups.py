"""PodGroup: pods that are scheduled together. Its feature gate is GenericWorkload."""

from sampan.apiserver.registry.behavior import GenericStrategy, status_behavior

BEHAVIOR = status_behavior(GenericStrategy(has_status=True), keeps_metadata=True)
