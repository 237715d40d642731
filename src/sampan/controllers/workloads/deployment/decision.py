"""The decision about a Deployment. Pure: `decide` maps it and its ReplicaSets to one step."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from sampan.api.gotext import quote
from sampan.api.semantics.conditions import TRUE, find_condition
from sampan.api.times import format_time
from sampan.api.types.apps_v1 import Deployment, DeploymentStatus, ReplicaSet
from sampan.api.types.core_v1 import Pod
from sampan.controllers.workloads.deployment.replicasets import (
    RECREATE,
    REVISION,
    Sets,
    age_key,
    brought_up_to_date,
    deadline_s,
    highest,
    kept_sets,
    new_set,
    revision_of,
    size,
    sort_out,
    total_size,
)
from sampan.controllers.workloads.deployment.rollback import Rollback, asked_for, rollback
from sampan.controllers.workloads.deployment.rollout import (
    emptied,
    has_old_pods,
    is_scaling,
    rolled,
    scaled_sets,
    size_of_new,
)
from sampan.controllers.workloads.deployment.status import (
    CREATED,
    FOUND,
    PROGRESSING,
    condition,
    counted,
    is_complete,
    next_check_s,
    paused_or_resumed,
    rolled_out,
    set_deployment_condition,
    with_conditions,
)

PodsOf = Callable[[Sequence[ReplicaSet]], Iterable[Pod]]
"""Return the pods of these ReplicaSets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    deployment: Deployment
    """The Deployment with the status and revision that it has after the step."""
    create: ReplicaSet | None = None
    changes: Sequence[ReplicaSet] = ()
    """The desired state of the ReplicaSets to update."""
    deletions: Sequence[ReplicaSet] = ()
    rollback: Rollback | None = None
    again_s: float | None = None
    """Seconds until the next sync if the step changes nothing."""


def decide(deployment: Deployment, found: Iterable[ReplicaSet], pods_of: PodsOf, now: float) -> Step:
    sets = sort_out(deployment, found)
    if deployment.metadata.deletionTimestamp is None:
        deployment = with_conditions(deployment, paused_or_resumed(deployment, now))
    updated = _updated(deployment, sets)
    deployment = _numbered(deployment, updated.new, now)
    step = _step(deployment, updated, pods_of, now)
    if updated.new is None or updated.new is sets.new or any(_is_same(rs, updated.new) for rs in step.changes):
        return step
    return replace(step, changes=[updated.new, *step.changes])


def _is_same(one: ReplicaSet, other: ReplicaSet) -> bool:
    return one.metadata.uid == other.metadata.uid


def _updated(deployment: Deployment, sets: Sets) -> Sets:
    """Return the ReplicaSets with the new one annotated; its revision is above all others."""
    if sets.new is None:
        return sets
    return Sets(brought_up_to_date(sets.new, deployment, highest(sets.old) + 1), sets.old)


def _numbered(deployment: Deployment, new: ReplicaSet | None, now: float) -> Deployment:
    """Return the Deployment with the revision of its new ReplicaSet. An existing ReplicaSet counts as progress."""
    if new is None:
        return deployment
    deployment = _with_revision(deployment, new.metadata.annotations.get(REVISION, ""))
    present = deployment.status.conditions
    if deadline_s(deployment) is None or find_condition(present, PROGRESSING) is not None:
        return deployment
    progress = (TRUE, FOUND, f"Found new replica set {quote(new.metadata.name)}")
    return with_conditions(
        deployment, set_deployment_condition(present, condition(PROGRESSING, *progress, format_time(now)))
    )


def _with_revision(deployment: Deployment, revision: str) -> Deployment:
    meta = deployment.metadata
    if meta.annotations.get(REVISION, "") == revision:
        return deployment
    metadata = msgspec.structs.replace(meta, annotations={**meta.annotations, REVISION: revision})
    return msgspec.structs.replace(deployment, metadata=metadata)


def _step(deployment: Deployment, sets: Sets, pods_of: PodsOf, now: float) -> Step:
    if deployment.metadata.deletionTimestamp is not None:
        return Step(deployment=_telling(deployment, counted(deployment, sets, now)))
    if deployment.spec.paused:
        deletions = surplus(deployment, sets.old) if asked_for(deployment) is None else ()
        return _scaled(deployment, sets, now, deletions)
    if asked_for(deployment) is not None and sets.new is not None:
        return Step(deployment=deployment, rollback=rollback(deployment, sets))
    if is_scaling(deployment, sets):
        return _scaled(deployment, sets, now, ())
    if deployment.spec.strategy.type == RECREATE:
        return _recreated(deployment, sets, pods_of, now)
    if sets.new is None:
        return _created(deployment, sets, now)
    return _rolled_out(deployment, sets, rolled(deployment, sets), now)


def _scaled(deployment: Deployment, sets: Sets, now: float, deletions: Sequence[ReplicaSet]) -> Step:
    changes = _real(sets, scaled_sets(deployment, sets))
    updated = _telling(deployment, counted(deployment, sets, now))
    return Step(deployment=updated, changes=changes, deletions=deletions)


def _real(sets: Sets, changes: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return only the ReplicaSets that really change."""
    present = {id(rs) for rs in sets.all}
    return [rs for rs in changes if id(rs) not in present]


def _recreated(deployment: Deployment, sets: Sets, pods_of: PodsOf, now: float) -> Step:
    changes = emptied(deployment, sets)
    if changes or has_old_pods(sets, pods_of(sets.old)):
        return _rolled_out(deployment, sets, changes, now, is_moving=True)
    if sets.new is None:
        return _created(deployment, sets, now)
    return _rolled_out(deployment, sets, rolled(deployment, sets), now)


def _created(deployment: Deployment, sets: Sets, now: float) -> Step:
    """Return the step that creates the ReplicaSet of the current template; everything else follows in later syncs."""
    replicas, revision = size_of_new(deployment, 0, total_size(sets.old)), highest(sets.old) + 1
    new = new_set(deployment, replicas, revision)
    deployment = _with_revision(deployment, str(revision))
    if deadline_s(deployment) is not None:
        progress = (TRUE, CREATED, f"Created new replica set {quote(new.metadata.name)}")
        conditions = set_deployment_condition(
            deployment.status.conditions, condition(PROGRESSING, *progress, format_time(now))
        )
        deployment = with_conditions(deployment, conditions)
    status = rolled_out(deployment, Sets(new, sets.old), now)
    return Step(deployment=_telling(deployment, status), create=new)


def _rolled_out(
    deployment: Deployment, sets: Sets, changes: Sequence[ReplicaSet], now: float, *, is_moving: bool = False
) -> Step:
    status = rolled_out(deployment, sets, now)
    is_done = not changes and not is_moving and is_complete(deployment, deployment.status)
    return Step(
        deployment=_telling(deployment, status),
        changes=changes,
        deletions=surplus(deployment, sets.old) if is_done else (),
        again_s=next_check_s(deployment, status, now),
    )


def _telling(deployment: Deployment, status: DeploymentStatus) -> Deployment:
    return msgspec.structs.replace(deployment, status=status)


def surplus(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Return the old ReplicaSets above the history limit, lowest revision first, except those with pods."""
    kept = kept_sets(deployment)
    if kept is None:
        return []
    alive = [rs for rs in old if rs.metadata.deletionTimestamp is None]
    alive.sort(key=lambda rs: (revision_of(rs), age_key(rs)))
    return [rs for rs in alive[: max(len(alive) - kept, 0)] if _is_empty(rs)]


def _is_empty(rs: ReplicaSet) -> bool:
    return not size(rs) and not rs.status.replicas and rs.metadata.generation <= rs.status.observedGeneration
