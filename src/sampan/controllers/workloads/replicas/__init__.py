"""The shared implementation of ReplicaSet and ReplicationController (`pkg/controller/replicaset`).

`kind` parameterizes the differences, `plan` decides on creations and deletions, `status` computes the status (both
pure), and `controller` acts.
"""

from sampan.controllers.workloads.replicas.controller import ReplicaController
from sampan.controllers.workloads.replicas.kind import ReplicaKind

__all__ = ["ReplicaController", "ReplicaKind"]
