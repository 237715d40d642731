"""PodGroup: pods that are scheduled together. Its feature gate is GenericWorkload."""

from sampan.apiserver.registry.behaviour import GenericStrategy, status_behaviour

BEHAVIOUR = status_behaviour(GenericStrategy(has_status=True), keeps_metadata=True)
