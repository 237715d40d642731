"""The decision about a Deployment. Pure: `decide` maps a Deployment and its ReplicaSets to one step.

A rollback to an older template is requested by an annotation, which stands for the `rollbackTo` field of older API
versions.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from sampan.api.go_compat.gotext import quote
from sampan.api.semantics.conditions import TRUE, find_condition
from sampan.api.types.apps_v1 import Deployment, DeploymentStatus, ReplicaSet
from sampan.api.types.core_v1 import Pod, PodTemplateSpec
from sampan.api.values.times import format_time
from sampan.controllers.workloads.deployment.replicasets import (
    HASH_LABEL,
    NOT_COPIED,
    RECREATE,
    REVISION,
    ROLLBACK_TO,
    ReplicaSets,
    age_key,
    deadline_s,
    find_previous_revision,
    is_same_template,
    max_revision,
    new_replica_set,
    number,
    revision_history_limit,
    revision_of,
    size,
    sort_replica_sets,
    total_replicas,
    update_annotations,
)
from sampan.controllers.workloads.deployment.rollout import (
    has_old_pods,
    is_scaling,
    new_replica_count,
    plan_rolling_update,
    scale_down_all,
    scale_proportionally,
)
from sampan.controllers.workloads.deployment.status import (
    CREATED,
    NEW_REPLICA_SET_FOUND,
    PROGRESSING,
    calculate_status,
    condition,
    is_complete,
    next_check_s,
    rollout_status,
    set_deployment_condition,
    update_pause_condition,
    with_conditions,
)
from sampan.machinery.events import NORMAL, WARNING

PodsOf = Callable[[Sequence[ReplicaSet]], Iterable[Pod]]
"""Return the pods of these ReplicaSets."""
NOT_FOUND, UNCHANGED = "DeploymentRollbackRevisionNotFound", "DeploymentRollbackTemplateUnchanged"
DONE = "DeploymentRollback"


@dataclass(frozen=True, slots=True)
class RollbackDecision:
    deployment: Deployment
    """The Deployment to write, without the annotation that requested the rollback."""
    type: str
    reason: str
    message: str


def rollback_revision(deployment: Deployment) -> int | None:
    """Return the revision to roll back to (0 means the previous one), or None if none is requested."""
    return number(deployment.metadata.annotations.get(ROLLBACK_TO, ""))


def rollback(deployment: Deployment, sets: ReplicaSets) -> RollbackDecision:
    revision = rollback_revision(deployment) or find_previous_revision(sets.all)
    if not revision:
        return RollbackDecision(_clear_rollback_to(deployment), WARNING, NOT_FOUND, "Unable to find last revision.")
    target = next((rs for rs in sets.all if revision_of(rs) == revision), None)
    if target is None:
        return RollbackDecision(
            _clear_rollback_to(deployment), WARNING, NOT_FOUND, "Unable to find the revision to rollback to."
        )
    name = quote(deployment.metadata.name)
    if is_same_template(deployment.spec.template, target.spec.template):
        message = f"The rollback revision contains the same template as current deployment {name}"
        return RollbackDecision(_clear_rollback_to(deployment), WARNING, UNCHANGED, message)
    message = f"Rolled back deployment {name} to revision {revision}"
    return RollbackDecision(_clear_rollback_to(_restore_template(deployment, target)), NORMAL, DONE, message)


def _restore_template(deployment: Deployment, rs: ReplicaSet) -> Deployment:
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


def _clear_rollback_to(deployment: Deployment) -> Deployment:
    annotations = {key: text for key, text in deployment.metadata.annotations.items() if key != ROLLBACK_TO}
    metadata = msgspec.structs.replace(deployment.metadata, annotations=annotations)
    return msgspec.structs.replace(deployment, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutStep:
    deployment: Deployment
    """The Deployment with the status and revision that it has after the step."""
    create: ReplicaSet | None = None
    changes: Sequence[ReplicaSet] = ()
    """The desired state of the ReplicaSets to update."""
    deletions: Sequence[ReplicaSet] = ()
    rollback: RollbackDecision | None = None
    again_s: float | None = None
    """Seconds until the next sync if the step changes nothing."""


def decide(deployment: Deployment, replica_sets: Iterable[ReplicaSet], pods_of: PodsOf, now: float) -> RolloutStep:
    sets = sort_replica_sets(deployment, replica_sets)
    if deployment.metadata.deletionTimestamp is None:
        deployment = with_conditions(deployment, update_pause_condition(deployment, now))
    updated = _annotate_new(deployment, sets)
    deployment = _apply_revision(deployment, updated.new, now)
    step = _plan_step(deployment, updated, pods_of, now)
    if updated.new is None or updated.new is sets.new or any(_is_same(rs, updated.new) for rs in step.changes):
        return step
    return replace(step, changes=[updated.new, *step.changes])


def _is_same(replica_set: ReplicaSet, other: ReplicaSet) -> bool:
    return replica_set.metadata.uid == other.metadata.uid


def _annotate_new(deployment: Deployment, sets: ReplicaSets) -> ReplicaSets:
    """Return the ReplicaSets with the new one annotated; its revision is above all others."""
    if sets.new is None:
        return sets
    return ReplicaSets(update_annotations(sets.new, deployment, max_revision(sets.old) + 1), sets.old)


def _apply_revision(deployment: Deployment, new: ReplicaSet | None, now: float) -> Deployment:
    """Return the Deployment with the revision of its new ReplicaSet. An existing ReplicaSet counts as progress."""
    if new is None:
        return deployment
    deployment = _with_revision(deployment, new.metadata.annotations.get(REVISION, ""))
    present = deployment.status.conditions
    if deadline_s(deployment) is None or find_condition(present, PROGRESSING) is not None:
        return deployment
    progress = (TRUE, NEW_REPLICA_SET_FOUND, f"Found new replica set {quote(new.metadata.name)}")
    return with_conditions(
        deployment, set_deployment_condition(present, condition(PROGRESSING, *progress, format_time(now)))
    )


def _with_revision(deployment: Deployment, revision: str) -> Deployment:
    meta = deployment.metadata
    if meta.annotations.get(REVISION, "") == revision:
        return deployment
    metadata = msgspec.structs.replace(meta, annotations={**meta.annotations, REVISION: revision})
    return msgspec.structs.replace(deployment, metadata=metadata)


def _plan_step(deployment: Deployment, sets: ReplicaSets, pods_of: PodsOf, now: float) -> RolloutStep:
    if deployment.metadata.deletionTimestamp is not None:
        return RolloutStep(deployment=_with_status(deployment, calculate_status(deployment, sets, now)))
    if deployment.spec.paused:
        deletions = surplus(deployment, sets.old) if rollback_revision(deployment) is None else ()
        return _plan_scaling(deployment, sets, now, deletions)
    if rollback_revision(deployment) is not None and sets.new is not None:
        return RolloutStep(deployment=deployment, rollback=rollback(deployment, sets))
    if is_scaling(deployment, sets):
        return _plan_scaling(deployment, sets, now, ())
    if deployment.spec.strategy.type == RECREATE:
        return _plan_recreate(deployment, sets, pods_of, now)
    if sets.new is None:
        return _plan_creation(deployment, sets, now)
    return _plan_rollout(deployment, sets, plan_rolling_update(deployment, sets), now)


def _plan_scaling(
    deployment: Deployment, sets: ReplicaSets, now: float, deletions: Sequence[ReplicaSet]
) -> RolloutStep:
    changes = _filter_changed(sets, scale_proportionally(deployment, sets))
    updated = _with_status(deployment, calculate_status(deployment, sets, now))
    return RolloutStep(deployment=updated, changes=changes, deletions=deletions)


def _filter_changed(sets: ReplicaSets, changes: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return only the ReplicaSets that really change."""
    present = {id(rs) for rs in sets.all}
    return [rs for rs in changes if id(rs) not in present]


def _plan_recreate(deployment: Deployment, sets: ReplicaSets, pods_of: PodsOf, now: float) -> RolloutStep:
    changes = scale_down_all(deployment, sets)
    if changes or has_old_pods(sets, pods_of(sets.old)):
        return _plan_rollout(deployment, sets, changes, now, is_moving=True)
    if sets.new is None:
        return _plan_creation(deployment, sets, now)
    return _plan_rollout(deployment, sets, plan_rolling_update(deployment, sets), now)


def _plan_creation(deployment: Deployment, sets: ReplicaSets, now: float) -> RolloutStep:
    """Return the step that creates the ReplicaSet of the current template; everything else follows in later syncs."""
    replicas, revision = new_replica_count(deployment, 0, total_replicas(sets.old)), max_revision(sets.old) + 1
    new = new_replica_set(deployment, replicas, revision)
    deployment = _with_revision(deployment, str(revision))
    if deadline_s(deployment) is not None:
        progress = (TRUE, CREATED, f"Created new replica set {quote(new.metadata.name)}")
        conditions = set_deployment_condition(
            deployment.status.conditions, condition(PROGRESSING, *progress, format_time(now))
        )
        deployment = with_conditions(deployment, conditions)
    status = rollout_status(deployment, ReplicaSets(new, sets.old), now)
    return RolloutStep(deployment=_with_status(deployment, status), create=new)


def _plan_rollout(
    deployment: Deployment, sets: ReplicaSets, changes: Sequence[ReplicaSet], now: float, *, is_moving: bool = False
) -> RolloutStep:
    status = rollout_status(deployment, sets, now)
    is_done = not changes and not is_moving and is_complete(deployment, deployment.status)
    return RolloutStep(
        deployment=_with_status(deployment, status),
        changes=changes,
        deletions=surplus(deployment, sets.old) if is_done else (),
        again_s=next_check_s(deployment, status, now),
    )


def _with_status(deployment: Deployment, status: DeploymentStatus) -> Deployment:
    return msgspec.structs.replace(deployment, status=status)


def surplus(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Return the old ReplicaSets above the history limit, lowest revision first, except those with pods."""
    history_limit = revision_history_limit(deployment)
    if history_limit is None:
        return []
    alive = [rs for rs in old if rs.metadata.deletionTimestamp is None]
    alive.sort(key=lambda rs: (revision_of(rs), age_key(rs)))
    return [rs for rs in alive[: max(len(alive) - history_limit, 0)] if _is_empty(rs)]


def _is_empty(rs: ReplicaSet) -> bool:
    return not size(rs) and not rs.status.replicas and rs.metadata.generation <= rs.status.observedGeneration
