"""The sizes of the ReplicaSets: limits, proportional scaling, and one step of a rolling update or of the Recreate
strategy (`rolling.go`, `recreate.go`, `util/deployment_util.go`). Pure."""

from collections.abc import Iterable, Sequence

from sampan.api.semantics.pods import is_terminal
from sampan.api.semantics.workloads import desired_replicas
from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.api.types.core_v1 import Pod
from sampan.controllers.workloads.deployment.replicasets import (
    DESIRED_REPLICAS_ANNOTATION,
    MAX_REPLICAS_ANNOTATION,
    ReplicaSets,
    age_key,
    count_of,
    is_rolling,
    max_replicas,
    max_unavailable,
    resize_replica_set,
    select_active,
    size,
    total_actual_replicas,
    total_available,
    total_replicas,
)


def is_scaling(deployment: Deployment, sets: ReplicaSets) -> bool:
    """Whether an active ReplicaSet was sized for another number of replicas."""
    counts = (count_of(rs, DESIRED_REPLICAS_ANNOTATION) for rs in select_active(sets.all))
    return any(count is not None and count != desired_replicas(deployment) for count in counts)


def scale_proportionally(deployment: Deployment, sets: ReplicaSets) -> Sequence[ReplicaSet]:
    """Return the desired state of the ReplicaSets to update."""
    if not sets.all:
        return ()
    only = _find_only_active_or_latest(sets)
    if only is not None:
        return [resize_replica_set(only, desired_replicas(deployment), deployment)]
    if is_saturated(deployment, sets.new):
        return [resize_replica_set(rs, 0, deployment) for rs in sets.active_old]
    if is_rolling(deployment) and (active_sets := select_active(sets.all)):
        return _distribute_change(deployment, active_sets)
    return ()


def _find_only_active_or_latest(sets: ReplicaSets) -> ReplicaSet | None:
    """Return the ReplicaSet that takes the whole change: the only active one, or the newest if none is active."""
    active_sets = select_active(sets.all)
    if len(active_sets) == 1:
        return active_sets[0]
    if active_sets:
        return None
    return sets.new or sets.old[-1]


def is_saturated(deployment: Deployment, rs: ReplicaSet | None) -> bool:
    """Whether the ReplicaSet was sized for all desired replicas and they are available."""
    count = desired_replicas(deployment)
    return (
        rs is not None and size(rs) == count_of(rs, DESIRED_REPLICAS_ANNOTATION) == rs.status.availableReplicas == count
    )


def _distribute_change(deployment: Deployment, replica_sets: Sequence[ReplicaSet]) -> Sequence[ReplicaSet]:
    """Distribute the change in proportion to the sizes.

    The largest come first; among equals the newest when scaling up and the oldest when scaling down. The rounding
    remainder goes to the largest.
    """
    allowed = max_replicas(deployment) if desired_replicas(deployment) > 0 else 0
    to_add = allowed - total_replicas(replica_sets)
    ordered = sorted(replica_sets, key=age_key, reverse=to_add > 0)
    ordered.sort(key=size, reverse=True)
    shares, added = [], 0
    for rs in ordered:
        share = _share(rs, deployment, to_add, added)
        shares.append(share)
        added += share
    shares[0] += to_add - added
    return [
        resize_replica_set(rs, max(size(rs) + share, 0), deployment) for rs, share in zip(ordered, shares, strict=True)
    ]


def _share(rs: ReplicaSet, deployment: Deployment, to_add: int, added: int) -> int:
    """Return the share of the ReplicaSet in `to_add`, of which `added` is already distributed."""
    if to_add == added:
        return 0
    return (min if to_add > 0 else max)(_fraction(rs, deployment), to_add - added)


def _fraction(rs: ReplicaSet, deployment: Deployment) -> int:
    if desired_replicas(deployment) == 0:
        return -size(rs)
    before = count_of(rs, MAX_REPLICAS_ANNOTATION) or deployment.status.replicas
    if not before:
        return 0
    exact = size(rs) * max_replicas(deployment) / before
    return int(exact + 0.5) - size(rs)


def new_replica_count(deployment: Deployment, present: int, all_sizes: int) -> int:
    """Return the size of the new ReplicaSet, which has `present` of the `all_sizes` pods."""
    count = desired_replicas(deployment)
    if not is_rolling(deployment):
        return count
    spare_count = max_replicas(deployment) - all_sizes
    return present + min(spare_count, count - present) if spare_count > 0 else present


def plan_rolling_update(deployment: Deployment, sets: ReplicaSets) -> Sequence[ReplicaSet]:
    """Return the desired state of the ReplicaSets to update."""
    new, count = sets.new, desired_replicas(deployment)
    assert new is not None
    if size(new) != count:
        target = count if size(new) > count else new_replica_count(deployment, size(new), total_replicas(sets.all))
        if target != size(new):
            return [resize_replica_set(new, target, deployment)]
    return _scale_down_old(deployment, new, sets.active_old)


def _scale_down_old(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> Sequence[ReplicaSet]:
    """Return the old ReplicaSets scaled down within maxUnavailable, removing unavailable pods first."""
    minimum = desired_replicas(deployment) - max_unavailable(deployment)
    waiting = size(new) - new.status.availableReplicas
    removable = total_replicas([*old, new]) - minimum - waiting
    if not old or removable <= 0:
        return ()
    targets = _remove_unhealthy(old, removable)
    spare = total_available([*old, new]) - minimum
    targets = _remove_spare(targets, spare)
    return [
        resize_replica_set(rs, target, deployment)
        for rs, target in zip(old, targets, strict=True)
        if target != size(rs)
    ]


def _remove_unhealthy(old: Sequence[ReplicaSet], removable: int) -> list[int]:
    sizes = []
    for rs in old:
        removed = max(min(removable, size(rs) - rs.status.availableReplicas), 0)
        removable -= removed
        sizes.append(size(rs) - removed)
    return sizes


def _remove_spare(present: Sequence[int], spare: int) -> list[int]:
    sizes = []
    for count in present:
        removed = max(min(count, spare), 0)
        spare -= removed
        sizes.append(count - removed)
    return sizes


def scale_down_all(deployment: Deployment, sets: ReplicaSets) -> Sequence[ReplicaSet]:
    """Return the old ReplicaSets that are still to be scaled down, with size 0."""
    return [resize_replica_set(rs, 0, deployment) for rs in sets.active_old]


def has_old_pods(sets: ReplicaSets, pods: Iterable[Pod]) -> bool:
    """Whether an old ReplicaSet reports pods, or any of its pods, passed as `pods`, has not terminated."""
    return total_actual_replicas(sets.old) > 0 or any(not is_terminal(pod) for pod in pods)
