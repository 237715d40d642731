"""StorageVersion: the versions in which the API servers of a cluster encode and decode a resource."""

from sampan.apiserver.registry.behaviour import GenericStrategy, status_behaviour

BEHAVIOUR = status_behaviour(GenericStrategy(has_status=True, allow_unconditional_update=False), keeps_metadata=True)
