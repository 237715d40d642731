"""New sizes when the deployment's size changed, or it is paused. Pure.

In the middle of an update every set gets its share, so that a change of size neither speeds the update up nor makes
more of a bad version.
"""

from collections.abc import Sequence

from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.controllers.workloads.deployment.limits import is_rolling, most_pods
from sampan.controllers.workloads.deployment.revisions import DESIRED, MOST, count_of, resized
from sampan.controllers.workloads.deployment.sets import Sets, active, age_key, size, total_size, wanted


def is_scaling(deployment: Deployment, sets: Sets) -> bool:
    """A set with pods was made for another size of the deployment."""
    found = (count_of(rs, DESIRED) for rs in active(sets.all))
    return any(count is not None and count != wanted(deployment) for count in found)


def scaled_sets(deployment: Deployment, sets: Sets) -> Sequence[ReplicaSet]:
    """The sets to be changed, as they should be."""
    if not sets.all:
        return ()
    only = _only_active_or_latest(sets)
    if only is not None:
        return [resized(only, wanted(deployment), deployment)]
    if is_saturated(deployment, sets.new):
        return [resized(rs, 0, deployment) for rs in sets.active_old]
    if is_rolling(deployment) and (found := active(sets.all)):
        return _in_proportion(deployment, found)
    return ()


def _only_active_or_latest(sets: Sets) -> ReplicaSet | None:
    """The set that takes the whole change: the only one with pods or, if none has, the newest."""
    found = active(sets.all)
    if len(found) == 1:
        return found[0]
    if found:
        return None
    return sets.new or sets.old[-1]


def is_saturated(deployment: Deployment, rs: ReplicaSet | None) -> bool:
    """The set has all pods that the deployment wants, was made for that, and they are available."""
    count = wanted(deployment)
    return rs is not None and size(rs) == count_of(rs, DESIRED) == rs.status.availableReplicas == count


def _in_proportion(deployment: Deployment, found: Sequence[ReplicaSet]) -> Sequence[ReplicaSet]:
    """The largest first, and of equals those that gain most from being first; what rounding leaves is the largest's."""
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
    """What the set gets of `to_add`, of which so much is given away."""
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


__all__ = ["is_saturated", "is_scaling", "scaled_sets"]
