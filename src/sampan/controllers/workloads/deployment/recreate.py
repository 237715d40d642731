"""The next step of a change of all pods at once. Pure: old pods go, and only when all are gone new ones come."""

from collections.abc import Iterable, Sequence

from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.api.types.core_v1 import Pod
from sampan.controllers.ownership import pod_facts
from sampan.controllers.workloads.deployment.revisions import resized
from sampan.controllers.workloads.deployment.sets import Sets, total_pods


def emptied(deployment: Deployment, sets: Sets) -> Sequence[ReplicaSet]:
    """The old sets that have yet to shrink, as they should be."""
    return [resized(rs, 0, deployment) for rs in sets.active_old]


def has_old_pods(sets: Sets, pods: Iterable[Pod]) -> bool:
    """An old set tells of pods, or one of these pods, that belong to old sets, has not ended."""
    return total_pods(sets.old) > 0 or any(not pod_facts.is_terminal(pod) for pod in pods)


__all__ = ["emptied", "has_old_pods"]
