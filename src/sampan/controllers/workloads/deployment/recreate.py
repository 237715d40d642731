"""One step of the Recreate strategy: new pods are created only after all old ones are gone. Pure."""

from collections.abc import Iterable, Sequence

from sampan.api.semantics.pods import is_terminal
from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.api.types.core_v1 import Pod
from sampan.controllers.workloads.deployment.revisions import resized
from sampan.controllers.workloads.deployment.sets import Sets, total_pods


def emptied(deployment: Deployment, sets: Sets) -> Sequence[ReplicaSet]:
    """Return the old ReplicaSets that are still to be scaled down, with size 0."""
    return [resized(rs, 0, deployment) for rs in sets.active_old]


def has_old_pods(sets: Sets, pods: Iterable[Pod]) -> bool:
    """Whether an old ReplicaSet reports pods, or any of its pods, passed as `pods`, has not terminated."""
    return total_pods(sets.old) > 0 or any(not is_terminal(pod) for pod in pods)
