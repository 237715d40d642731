"""deployment-controller, which rolls out pod templates through ReplicaSets (`pkg/controller/deployment`).

The controller creates a ReplicaSet for every template and scales them. Pure functions over the Deployment and its
ReplicaSets decide, and `controller` acts:

    sets        the ReplicaSet of the current template, the old ones, and their totals
    limits      maxSurge, maxUnavailable and deadlines in absolute numbers
    revisions   revision and size annotations, names and hashes of ReplicaSets
    scaling     new sizes if the Deployment was scaled
    rolling     one step of a rolling update
    recreate    one step of the Recreate strategy
    conditions  Available, Progressing and ReplicaFailure
    status      the status, and whether there was progress
    rollback    rollback to an older template, requested by annotation
    decision    which of these applies
"""

from sampan.controllers.descriptor import Parts
from sampan.controllers.workloads.deployment.controller import DeploymentController


def make(parts: Parts) -> DeploymentController:
    return DeploymentController(parts=parts)


__all__ = ["DeploymentController", "make"]
