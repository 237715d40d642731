"""Planning of pod creations and deletions so that each eligible node has exactly one pod. Pure."""

from collections.abc import Callable, Sequence

from sampan.api.semantics.pods import FAILED, is_ready, is_terminal
from sampan.api.types.core_v1 import Node, Pod
from sampan.controllers.workloads.daemonset.template import HASH_LABEL
from sampan.controllers.workloads.daemonset.view import Changes, View, oldest_first, surge


def manage(view: View, held_s: Callable[[str], float]) -> Changes:
    """Return the changes. `held_s(node)` is the remaining backoff, in seconds, for replacing a failed pod there."""
    changes = Changes()
    surges = surge(view.daemon_set, 1) > 0
    for node in view.nodes:
        _on_node(view, node, surges, held_s, changes)
    present = {node.metadata.name for node in view.nodes}
    for name, pods in view.pods.items():
        if name not in present:
            # They can never be bound, and the pod garbage collector does not delete them.
            changes.pods += [pod for pod in pods if not pod.spec.nodeName]
    return changes


def _on_node(view: View, node: Node, surges: bool, held_s: Callable[[str], float], changes: Changes) -> None:
    verdict, name = view.placement.judge(node), node.metadata.name
    pods = view.pods.get(name, ())
    if verdict.runs and not pods:
        changes.nodes.append(name)
    elif verdict.stays:
        alive = _without_ended(pods, name, held_s, changes)
        if surges and not alive and verdict.runs:
            changes.nodes.append(name)
        elif len(alive) > 1:
            changes.pods += _surplus(view, alive) if surges else oldest_first(alive)[1:]
    else:
        changes.pods += [pod for pod in pods if pod.metadata.deletionTimestamp is None]


def _without_ended(pods: Sequence[Pod], node: str, held_s: Callable[[str], float], changes: Changes) -> list[Pod]:
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


def _surplus(view: View, alive: Sequence[Pod]) -> list[Pod]:
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
