"""LeaseCandidate: a candidate of a coordinated leader election."""

from sampan.apiserver.registry.behavior import GenericStrategy, ResourceBehavior

BEHAVIOR = ResourceBehavior(
    strategy=GenericStrategy(has_status=False, allow_create_on_update=True, allow_unconditional_update=False)
)
