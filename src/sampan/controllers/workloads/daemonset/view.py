"""The pods of a DaemonSet by node, and the status that follows from them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from sampan.api.semantics.pods import is_available, is_ready, is_terminal
from sampan.api.types.apps_v1 import DaemonSet, DaemonSetStatus
from sampan.api.types.core_v1 import Node, Pod
from sampan.api.values.int_or_string import scale_int_or_percent
from sampan.controllers.workloads.daemonset.nodes import DaemonPlacement, is_updated, target_node

ROLLING_UPDATE = "RollingUpdate"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSetView:
    daemon_set: DaemonSet
    nodes: Sequence[Node]
    placement: DaemonPlacement
    pods: Mapping[str, Sequence[Pod]]
    """Pods by the node that they are bound or pinned to, without terminated pods that are being deleted."""
    hash: str
    """The hash of the current revision."""
    generation: int | None = None
    """The template generation from the DaemonSet's annotation."""
    now: float

    def is_updated(self, pod: Pod) -> bool:
        return is_updated(pod, self.hash, self.generation)

    def is_all_updated(self) -> bool:
        return all(self.is_updated(pod) for pods in self.pods.values() for pod in pods)

    def is_available(self, pod: Pod) -> bool:
        return is_available(pod, self.daemon_set.spec.minReadySeconds, self.now)

    def count_desired(self) -> int:
        """Return the number of nodes that should have a pod."""
        return sum(self.placement.eligibility_of(node).runs for node in self.nodes)


@dataclass(slots=True)
class DaemonPodChanges:
    """Pods to create and to delete."""

    nodes: list[str] = field(default_factory=list)
    """Nodes on which to create a pod."""
    pods: list[Pod] = field(default_factory=list)
    """The pods of the DaemonSet to delete."""
    ended: list[tuple[Pod, str]] = field(default_factory=list)
    """The pods in `pods` that have failed or succeeded, each with its node."""
    again_s: float | None = None
    """Seconds until the backoff of a failed pod ends."""

    def __bool__(self) -> bool:
        return bool(self.nodes or self.pods)


def group_by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    result: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.metadata.deletionTimestamp is not None and is_terminal(pod):
            continue
        if node := target_node(pod):
            result.setdefault(node, []).append(pod)
    return result


def oldest_first(pods: Iterable[Pod]) -> list[Pod]:
    """Sort the pods by age; bound pods come before unbound ones."""
    return sorted(
        pods, key=lambda pod: (not pod.spec.nodeName, pod.metadata.creationTimestamp or "", pod.metadata.name)
    )


def surge(daemon_set: DaemonSet, nodes: int) -> int:
    """Return on how many nodes a second pod may run during an update."""
    strategy = daemon_set.spec.updateStrategy
    if strategy.type != ROLLING_UPDATE or strategy.rollingUpdate is None:
        return 0
    return scale_int_or_percent(strategy.rollingUpdate.maxSurge or 0, nodes, round_up=True)


def unavailable(daemon_set: DaemonSet, nodes: int) -> int:
    """Return on how many nodes the pod may be unavailable during an update."""
    strategy = daemon_set.spec.updateStrategy
    if strategy.type != ROLLING_UPDATE or strategy.rollingUpdate is None:
        return 0
    return scale_int_or_percent(strategy.rollingUpdate.maxUnavailable or 0, nodes, round_up=True)


def compute_status(view: DaemonSetView, *, has_acted: bool) -> DaemonSetStatus:
    """Return the status. `has_acted` is true if the current generation was acted upon."""
    present = view.daemon_set.status
    status = DaemonSetStatus(
        observedGeneration=view.daemon_set.metadata.generation if has_acted else present.observedGeneration,
        collisionCount=present.collisionCount,
        conditions=present.conditions,
    )
    for node in view.nodes:
        runs, pods = view.placement.eligibility_of(node).runs, view.pods.get(node.metadata.name)
        if not runs:
            status.numberMisscheduled += bool(pods)
            continue
        status.desiredNumberScheduled += 1
        if pods:
            _count(status, view, pods[0] if len(pods) == 1 else oldest_first(pods)[0])
    status.numberUnavailable = status.desiredNumberScheduled - status.numberAvailable
    return status


def _count(status: DaemonSetStatus, view: DaemonSetView, pod: Pod) -> None:
    status.currentNumberScheduled += 1
    if is_ready(pod):
        status.numberReady += 1
        status.numberAvailable += view.is_available(pod)
    status.updatedNumberScheduled += view.is_updated(pod)


def is_status_changed(status: DaemonSetStatus, old_status: DaemonSetStatus, generation: int) -> bool:
    same_age = replace(status, observedGeneration=old_status.observedGeneration)
    return same_age != old_status or (
        old_status.observedGeneration < generation and status.observedGeneration == generation
    )
