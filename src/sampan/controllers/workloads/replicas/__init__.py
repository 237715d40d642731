"""As many pods of a selector as its owner wants: what replicasets and replication controllers have in common.

`kind` says in what the two differ, `plan` decides how many pods come or which go, `status` what is told of them (both
pure), `controller` carries it out.
"""

from sampan.controllers.workloads.replicas.controller import ReplicaController
from sampan.controllers.workloads.replicas.kind import ReplicaKind

__all__ = ["ReplicaController", "ReplicaKind"]
