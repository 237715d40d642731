"""ResourcePoolStatusRequest: asks for the state of resource pools."""

from sampan.apiserver.registry.behavior import GenericStrategy, status_behavior

BEHAVIOR = status_behavior(
    GenericStrategy(has_status=True, allow_unconditional_update=False, return_deleted_object=True), keeps_metadata=True
)
