"""DeviceTaintRule: adds a taint to all devices that it selects."""

from sampan.apiserver.registry.behaviour import GenericStrategy, status_behaviour

BEHAVIOUR = status_behaviour(
    GenericStrategy(has_status=True, return_deleted_object=True, counts_generation=True), keeps_metadata=True
)
