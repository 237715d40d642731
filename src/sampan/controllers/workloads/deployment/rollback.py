"""Rollback to an older template, requested by the annotation that replaces the field of older API versions. Pure."""

from dataclasses import dataclass

import msgspec

from sampan.api.go_compat.gotext import quote
from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.api.types.core_v1 import PodTemplateSpec
from sampan.controllers.workloads.deployment.replicasets import (
    HASH_LABEL,
    NOT_COPIED,
    ROLLBACK_TO,
    ReplicaSets,
    is_same_template,
    last,
    number,
    revision_of,
)
from sampan.machinery.events import NORMAL, WARNING

NOT_FOUND, UNCHANGED = "DeploymentRollbackRevisionNotFound", "DeploymentRollbackTemplateUnchanged"
DONE = "DeploymentRollback"


@dataclass(frozen=True, slots=True)
class Rollback:
    deployment: Deployment
    """The Deployment to write, without the annotation that requested the rollback."""
    type: str
    reason: str
    message: str


def rollback_revision(deployment: Deployment) -> int | None:
    """Return the revision to roll back to (0 means the previous one), or None if none is requested."""
    return number(deployment.metadata.annotations.get(ROLLBACK_TO, ""))


def rollback(deployment: Deployment, sets: ReplicaSets) -> Rollback:
    revision = rollback_revision(deployment) or last(sets.all)
    if not revision:
        return Rollback(_cleared(deployment), WARNING, NOT_FOUND, "Unable to find last revision.")
    target = next((rs for rs in sets.all if revision_of(rs) == revision), None)
    if target is None:
        return Rollback(_cleared(deployment), WARNING, NOT_FOUND, "Unable to find the revision to rollback to.")
    name = quote(deployment.metadata.name)
    if is_same_template(deployment.spec.template, target.spec.template):
        message = f"The rollback revision contains the same template as current deployment {name}"
        return Rollback(_cleared(deployment), WARNING, UNCHANGED, message)
    message = f"Rolled back deployment {name} to revision {revision}"
    return Rollback(_cleared(_restored(deployment, target)), NORMAL, DONE, message)


def _restored(deployment: Deployment, rs: ReplicaSet) -> Deployment:
    """Return the Deployment with the template of the ReplicaSet and the annotations of that time."""
    meta = rs.spec.template.metadata
    labels = {key: value for key, value in meta.labels.items() if key != HASH_LABEL}
    template = PodTemplateSpec(metadata=msgspec.structs.replace(meta, labels=labels), spec=rs.spec.template.spec)
    own = {key: text for key, text in deployment.metadata.annotations.items() if key in NOT_COPIED}
    copied = {key: text for key, text in rs.metadata.annotations.items() if key not in NOT_COPIED}
    return msgspec.structs.replace(
        deployment,
        metadata=msgspec.structs.replace(deployment.metadata, annotations={**own, **copied}),
        spec=msgspec.structs.replace(deployment.spec, template=template),
    )


def _cleared(deployment: Deployment) -> Deployment:
    annotations = {key: text for key, text in deployment.metadata.annotations.items() if key != ROLLBACK_TO}
    metadata = msgspec.structs.replace(deployment.metadata, annotations=annotations)
    return msgspec.structs.replace(deployment, metadata=metadata)
