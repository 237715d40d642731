"""ResourcePoolStatusRequest: asks for the state of resource pools."""

from sampan.apiserver.registry.behaviour import GenericStrategy, status_behaviour

BEHAVIOUR = status_behaviour(
    GenericStrategy(has_status=True, allow_unconditional_update=False, return_deleted_object=True), keeps_metadata=True
)
