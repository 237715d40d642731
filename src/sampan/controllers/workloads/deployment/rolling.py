"""One step of a rolling update: the new ReplicaSet is scaled up if possible, otherwise the old ones down. Pure."""

from collections.abc import Sequence

from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.controllers.workloads.deployment.limits import is_rolling, max_missing, most_pods
from sampan.controllers.workloads.deployment.revisions import resized
from sampan.controllers.workloads.deployment.sets import Sets, size, total_available, total_size, wanted


def size_of_new(deployment: Deployment, present: int, all_sizes: int) -> int:
    """Return the size of the new ReplicaSet, which has `present` of the `all_sizes` pods."""
    count = wanted(deployment)
    if not is_rolling(deployment):
        return count
    room = most_pods(deployment) - all_sizes
    return present + min(room, count - present) if room > 0 else present


def rolled(deployment: Deployment, sets: Sets) -> Sequence[ReplicaSet]:
    """Return the desired state of the ReplicaSets to update."""
    new, count = sets.new, wanted(deployment)
    assert new is not None
    if size(new) != count:
        target = count if size(new) > count else size_of_new(deployment, size(new), total_size(sets.all))
        if target != size(new):
            return [resized(new, target, deployment)]
    return _shrunk(deployment, new, sets.active_old)


def _shrunk(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> Sequence[ReplicaSet]:
    """Return the old ReplicaSets scaled down within maxUnavailable, removing unavailable pods first."""
    least = wanted(deployment) - max_missing(deployment)
    waiting = size(new) - new.status.availableReplicas
    removable = total_size([*old, new]) - least - waiting
    if not old or removable <= 0:
        return ()
    targets = _without_unhealthy(old, removable)
    spare = total_available([*old, new]) - least
    targets = _without_spare(targets, spare)
    return [resized(rs, target, deployment) for rs, target in zip(old, targets, strict=True) if target != size(rs)]


def _without_unhealthy(old: Sequence[ReplicaSet], removable: int) -> list[int]:
    sizes = []
    for rs in old:
        removed = max(min(removable, size(rs) - rs.status.availableReplicas), 0)
        removable -= removed
        sizes.append(size(rs) - removed)
    return sizes


def _without_spare(present: Sequence[int], spare: int) -> list[int]:
    sizes = []
    for count in present:
        removed = max(min(count, spare), 0)
        spare -= removed
        sizes.append(count - removed)
    return sizes
