"""New sizes of ReplicaSets if the Deployment was scaled or is paused. Pure.

During a rollout the change is distributed in proportion, so that scaling neither accelerates the rollout nor favors a
bad version.
"""

from collections.abc import Sequence

from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.controllers.workloads.deployment.limits import is_rolling, most_pods
from sampan.controllers.workloads.deployment.revisions import DESIRED, MOST, count_of, resized
from sampan.controllers.workloads.deployment.sets import Sets, active, age_key, size, total_size, wanted


def is_scaling(deployment: Deployment, sets: Sets) -> bool:
    """Whether an active ReplicaSet was sized for another number of replicas."""
    counts = (count_of(rs, DESIRED) for rs in active(sets.all))
    return any(count is not None and count != wanted(deployment) for count in counts)


def scaled_sets(deployment: Deployment, sets: Sets) -> Sequence[ReplicaSet]:
    """Return the desired state of the ReplicaSets to update."""
    if not sets.all:
        return ()
    only = _only_active_or_latest(sets)
    if only is not None:
        return [resized(only, wanted(deployment), deployment)]
    if is_saturated(deployment, sets.new):
        return [resized(rs, 0, deployment) for rs in sets.active_old]
    if is_rolling(deployment) and (active_sets := active(sets.all)):
        return _in_proportion(deployment, active_sets)
    return ()


def _only_active_or_latest(sets: Sets) -> ReplicaSet | None:
    """Return the ReplicaSet that takes the whole change: the only active one, or the newest if none is active."""
    active_sets = active(sets.all)
    if len(active_sets) == 1:
        return active_sets[0]
    if active_sets:
        return None
    return sets.new or sets.old[-1]


def is_saturated(deployment: Deployment, rs: ReplicaSet | None) -> bool:
    """Whether the ReplicaSet was sized for all desired replicas and they are available."""
    count = wanted(deployment)
    return rs is not None and size(rs) == count_of(rs, DESIRED) == rs.status.availableReplicas == count


def _in_proportion(deployment: Deployment, found: Sequence[ReplicaSet]) -> Sequence[ReplicaSet]:
    """Distribute the change in proportion to the sizes.

    The largest come first; among equals the newest when scaling up and the oldest when scaling down. The rounding
    remainder goes to the largest.
    """
    allowed = most_pods(deployment) if wanted(deployment) > 0 else 0
    to_add = allowed - total_size(found)
    ordered = sorted(found, key=age_key, reverse=to_add > 0)
    ordered.sort(key=size, reverse=True)
    shares, added = [], 0
    for rs in ordered:
        share = _share(rs, deployment, to_add, added)
        shares.append(share)
        added += share
    shares[0] += to_add - added
    return [resized(rs, max(size(rs) + share, 0), deployment) for rs, share in zip(ordered, shares, strict=True)]


def _share(rs: ReplicaSet, deployment: Deployment, to_add: int, added: int) -> int:
    """Return the share of the ReplicaSet in `to_add`, of which `added` is already distributed."""
    if to_add == added:
        return 0
    return (min if to_add > 0 else max)(_fraction(rs, deployment), to_add - added)


def _fraction(rs: ReplicaSet, deployment: Deployment) -> int:
    if wanted(deployment) == 0:
        return -size(rs)
    before = count_of(rs, MOST) or deployment.status.replicas
    if not before:
        return 0
    exact = size(rs) * most_pods(deployment) / before
    return int(exact + 0.5) - size(rs)
