"""StorageVersion: the versions in which the API servers of a cluster encode and decode a resource."""

from sampan.apiserver.registry.behavior import GenericStrategy, status_behavior

BEHAVIOR = status_behavior(GenericStrategy(has_status=True, allow_unconditional_update=False), keeps_metadata=True)
