"""StorageVersionMigration: rewrites the stored objects of a resource in the current storage version."""

from sampan.apiserver.registry.generic import GenericStrategy, status_behaviour

BEHAVIOUR = status_behaviour(GenericStrategy(has_status=True, allow_unconditional_update=False), keeps_metadata=True)
