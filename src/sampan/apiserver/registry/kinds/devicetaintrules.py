"""DeviceTaintRule: adds a taint to all devices that it selects."""

from sampan.apiserver.registry.behavior import GenericStrategy, status_behavior

BEHAVIOR = status_behavior(
    GenericStrategy(has_status=True, return_deleted_object=True, counts_generation=True), keeps_metadata=True
)
