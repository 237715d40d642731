"""deployment-controller: equal pods, and how one version of them gives way to the next.

A version is a ReplicaSet; the controller makes one for every template and moves their sizes. What to do is decided by
pure functions over the deployment and its sets, and carried out by `controller`:

    sets        which set is the present template's, which are older, and what they add up to
    limits      how many pods there may be too many or too few
    revisions   the annotations that number the versions and say what sizes they were made for; names and hashes
    scaling     new sizes when the deployment's own size changed
    rolling     the next step of a rolling update
    recreate    the next step of a change of all pods at once
    conditions  Available, Progressing and ReplicaFailure
    status      what is told, and whether there was progress
    rollback    back to an older template, asked for by annotation
    decision    which of these is called for
"""

from sampan.controllers.descriptor import Parts
from sampan.controllers.workloads.deployment.controller import DeploymentController


def make(parts: Parts) -> DeploymentController:
    return DeploymentController(parts=parts)


__all__ = ["DeploymentController", "make"]
