"""The counters in the status of a DaemonSet."""

from msgspec.structs import replace

from sampan.api.semantics.pods import is_ready
from sampan.api.types.apps_v1 import DaemonSetStatus
from sampan.api.types.core_v1 import Pod
from sampan.controllers.workloads.daemonset.view import View, oldest_first


def counted(view: View, *, has_acted: bool) -> DaemonSetStatus:
    """Return the status. `has_acted` is true if the current generation was acted upon."""
    present = view.daemon_set.status
    status = DaemonSetStatus(
        observedGeneration=view.daemon_set.metadata.generation if has_acted else present.observedGeneration,
        collisionCount=present.collisionCount,
        conditions=present.conditions,
    )
    for node in view.nodes:
        runs, pods = view.placement.judge(node).runs, view.pods.get(node.metadata.name)
        if not runs:
            status.numberMisscheduled += bool(pods)
            continue
        status.desiredNumberScheduled += 1
        if pods:
            _count(status, view, pods[0] if len(pods) == 1 else oldest_first(pods)[0])
    status.numberUnavailable = status.desiredNumberScheduled - status.numberAvailable
    return status


def _count(status: DaemonSetStatus, view: View, pod: Pod) -> None:
    status.currentNumberScheduled += 1
    if is_ready(pod):
        status.numberReady += 1
        status.numberAvailable += view.is_available(pod)
    status.updatedNumberScheduled += view.is_updated(pod)


def is_news(status: DaemonSetStatus, known: DaemonSetStatus, generation: int) -> bool:
    same_age = replace(status, observedGeneration=known.observedGeneration)
    return same_age != known or (known.observedGeneration < generation and status.observedGeneration == generation)
