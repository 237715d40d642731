"""LeaseCandidate: a candidate of a coordinated leader election."""

from sampan.apiserver.registry.behaviour import GenericStrategy, ResourceBehaviour

BEHAVIOUR = ResourceBehaviour(
    strategy=GenericStrategy(has_status=False, allow_create_on_update=True, allow_unconditional_update=False)
)
