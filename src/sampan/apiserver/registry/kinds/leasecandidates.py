"""LeaseCandidate: a candidate of a coordinated leader election."""

from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.generic import GenericStrategy

BEHAVIOUR = ResourceBehaviour(
    strategy=GenericStrategy(has_status=False, allow_create_on_update=True, allow_unconditional_update=False)
)
