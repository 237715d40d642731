"""The next step of a rolling update. Pure: first the new set grows as far as it may, then the old ones shrink."""

from collections.abc import Sequence

from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.controllers.workloads.deployment.limits import is_rolling, max_missing, most_pods
from sampan.controllers.workloads.deployment.revisions import resized
from sampan.controllers.workloads.deployment.sets import Sets, size, total_available, total_size, wanted


def size_of_new(deployment: Deployment, present: int, all_sizes: int) -> int:
    """How large the new set should be, that has `present` pods of `all_sizes` in all."""
    count = wanted(deployment)
    if not is_rolling(deployment):
        return count
    room = most_pods(deployment) - all_sizes
    return present + min(room, count - present) if room > 0 else present


def rolled(deployment: Deployment, sets: Sets) -> Sequence[ReplicaSet]:
    """The sets to be changed, as they should be."""
    new, count = sets.new, wanted(deployment)
    assert new is not None
    if size(new) != count:
        aim = count if size(new) > count else size_of_new(deployment, size(new), total_size(sets.all))
        if aim != size(new):
            return [resized(new, aim, deployment)]
    return _shrunk(deployment, new, sets.active_old)


def _shrunk(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> Sequence[ReplicaSet]:
    """Old sets that may shrink without more pods missing than may be: by pods that are not available first."""
    least = wanted(deployment) - max_missing(deployment)
    waiting = size(new) - new.status.availableReplicas
    removable = total_size([*old, new]) - least - waiting
    if not old or removable <= 0:
        return ()
    aims = _without_unhealthy(old, removable)
    spare = total_available([*old, new]) - least
    aims = _without_spare(aims, spare)
    return [resized(rs, aim, deployment) for rs, aim in zip(old, aims, strict=True) if aim != size(rs)]


def _without_unhealthy(old: Sequence[ReplicaSet], removable: int) -> list[int]:
    aims = []
    for rs in old:
        gone = max(min(removable, size(rs) - rs.status.availableReplicas), 0)
        removable -= gone
        aims.append(size(rs) - gone)
    return aims


def _without_spare(present: Sequence[int], spare: int) -> list[int]:
    aims = []
    for count in present:
        gone = max(min(count, spare), 0)
        spare -= gone
        aims.append(count - gone)
    return aims


__all__ = ["rolled", "size_of_new"]
