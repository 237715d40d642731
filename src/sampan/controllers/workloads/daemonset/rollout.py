"""Which pods of a DaemonSet to create and delete: on nodes without a pod, and in a rolling update. Pure."""

from collections.abc import Callable, Sequence

from sampan.api.semantics.pods import FAILED, is_ready, is_terminal
from sampan.api.types.core_v1 import Node, Pod
from sampan.controllers.workloads.daemonset.nodes import HASH_LABEL
from sampan.controllers.workloads.daemonset.view import (
    DaemonPodChanges,
    DaemonSetView,
    oldest_first,
    surge,
    unavailable,
)


def manage(view: DaemonSetView, held_s: Callable[[str], float]) -> DaemonPodChanges:
    """Return the pods to create and to delete, except for a rolling update. `held_s(node)` is the remaining backoff, in
    seconds, for replacing a failed pod on the node."""
    changes = DaemonPodChanges()
    surges = surge(view.daemon_set, 1) > 0
    for node in view.nodes:
        _plan_node(view, node, surges, held_s, changes)
    present = {node.metadata.name for node in view.nodes}
    for name, pods in view.pods.items():
        if name not in present:
            # Pods pinned to a missing node can never be bound, and the pod garbage collector does not delete them.
            changes.pods += [pod for pod in pods if not pod.spec.nodeName]
    return changes


def _plan_node(
    view: DaemonSetView, node: Node, surges: bool, held_s: Callable[[str], float], changes: DaemonPodChanges
) -> None:
    eligibility, name = view.placement.eligibility_of(node), node.metadata.name
    pods = view.pods.get(name, ())
    if eligibility.runs and not pods:
        changes.nodes.append(name)
    elif eligibility.stays:
        alive = _drop_ended_pods(pods, name, held_s, changes)
        if surges and not alive and eligibility.runs:
            changes.nodes.append(name)
        elif len(alive) > 1:
            changes.pods += _surplus(view, alive) if surges else oldest_first(alive)[1:]
    else:
        changes.pods += [pod for pod in pods if pod.metadata.deletionTimestamp is None]


def _drop_ended_pods(
    pods: Sequence[Pod], node: str, held_s: Callable[[str], float], changes: DaemonPodChanges
) -> list[Pod]:
    alive: list[Pod] = []
    for pod in pods:
        if pod.metadata.deletionTimestamp is not None:
            continue
        if not is_terminal(pod):
            alive.append(pod)
        elif pod.status.phase == FAILED and (backoff_s := held_s(node)) > 0:
            changes.again_s = backoff_s if changes.again_s is None else min(changes.again_s, backoff_s)
        else:
            changes.ended.append((pod, node))
            changes.pods.append(pod)
    return alive


def _surplus(view: DaemonSetView, alive: Sequence[Pod]) -> list[Pod]:
    """Return all pods but the oldest updated and the oldest outdated one. The outdated one stays only while it is ready
    and the updated one is not available."""
    new: list[Pod] = []
    old: list[Pod] = []
    for pod in oldest_first(alive):
        (new if pod.metadata.labels.get(HASH_LABEL) == view.hash else old).append(pod)
    surplus = new[1:] + old[1:]
    if new and old and (not is_ready(old[0]) or view.is_available(new[0])):
        surplus.append(old[0])
    return surplus


def plan_rolling_update(view: DaemonSetView) -> DaemonPodChanges:
    if view.is_all_updated():
        return DaemonPodChanges()
    desired = view.count_desired()
    max_surge, max_unavailable = surge(view.daemon_set, desired), unavailable(view.daemon_set, desired)
    if max_surge == 0:
        return _replace(view, max_unavailable or (1 if desired else 0))
    return _SurgePlanner(view, max_surge, desired).changes()


def find_new_and_old_pods(view: DaemonSetView, pods: Sequence[Pod]) -> tuple[Pod | None, Pod | None] | None:
    """Return the updated and the outdated pod of a node, ignoring terminating ones.

    The result is None if there are several of either, which `manage` corrects.
    """
    new: Pod | None = None
    old: Pod | None = None
    for pod in pods:
        if pod.metadata.deletionTimestamp is not None:
            continue
        if view.is_updated(pod):
            if new is not None:
                return None
            new = pod
        elif old is not None:
            return None
        else:
            old = pod
    return new, old


def _pods_by_node(view: DaemonSetView) -> dict[str, Sequence[Pod]]:
    """Return the pods by node, including nodes whose pod is missing, sorted by node name."""
    pods = dict(view.pods)
    for node in view.nodes:
        if view.placement.eligibility_of(node).runs:
            pods.setdefault(node.metadata.name, ())
    return dict(sorted(pods.items()))


def _replace(view: DaemonSetView, max_unavailable: int) -> DaemonPodChanges:
    down, replaced, waiting = 0, [], []
    for pods in _pods_by_node(view).values():
        pair = find_new_and_old_pods(view, pods)
        new, old = pair or (None, None)
        if pair is None or (new is None) == (old is None):
            down += 1
        elif new is not None:
            down += not view.is_available(new)
        elif old is not None and not view.is_available(old):
            replaced.append(old)
            down += 1
        elif old is not None:
            waiting.append(old)
    return DaemonPodChanges(pods=replaced + waiting[: max(max_unavailable - down, 0)])


class _SurgePlanner:
    def __init__(self, view: DaemonSetView, maximum: int, desired: int) -> None:
        self._view, self._maximum, self._desired = view, maximum, desired
        self._nodes: dict[str, Node] = {node.metadata.name: node for node in view.nodes}
        self._surges = self._available = 0
        self._replaced: list[Pod] = []
        self._unwanted: list[Pod] = []
        """Available pods on nodes that are no longer eligible."""
        self._allowed: list[str] = []
        self._candidates: list[str] = []

    def changes(self) -> DaemonPodChanges:
        for node, pods in _pods_by_node(self._view).items():
            pair = find_new_and_old_pods(self._view, pods)
            if pair is None:
                self._surges += 1
            else:
                self._classify(node, *pair)
        # Available pods on ineligible nodes are deleted only if enough pods are available elsewhere.
        spare = max(self._available - self._desired, 0)
        surge_budget = max(self._maximum - self._surges, 0)
        return DaemonPodChanges(
            nodes=self._allowed + self._candidates[:surge_budget], pods=self._replaced + self._unwanted[:spare]
        )

    def _classify(self, node: str, new: Pod | None, old: Pod | None) -> None:
        counted = old or new
        self._available += counted is not None and self._view.is_available(counted)
        if old is None:
            return
        if new is None:
            self._classify_old(node, old)
        elif self._view.is_available(new):
            self._replaced.append(old)
        else:
            self._surges += 1

    def _classify_old(self, node: str, old: Pod) -> None:
        present, is_available = self._nodes.get(node), self._view.is_available(old)
        if present is None:
            return
        if not self._view.placement.eligibility_of(present).runs:
            (self._unwanted if is_available else self._replaced).append(old)
        else:
            (self._candidates if is_available else self._allowed).append(node)
