"""The nodes that a DaemonSet's pods are eligible for: by node name, selector, affinity and taints."""

from typing import NamedTuple

from sampan.api.semantics.node_selectors import RequiredNodeAffinity
from sampan.api.semantics.taints import NO_EXECUTE, NO_SCHEDULE, untolerated
from sampan.api.types.core_v1 import Node, PodSpec
from sampan.controllers.workloads.daemonset.template import daemon_tolerations


class Verdict(NamedTuple):
    runs: bool
    """Whether a pod is to be created there."""
    stays: bool
    """Whether an existing pod may stay."""


_NO, _STAYS, _YES = Verdict(False, False), Verdict(False, True), Verdict(True, True)


class Placement:
    """The node requirements of one pod template. The decision about a node is cached until the node changes."""

    def __init__(self, spec: PodSpec) -> None:
        self._node_name = spec.nodeName
        self._affinity = RequiredNodeAffinity(spec)
        self._tolerations = daemon_tolerations(spec)
        self._judged: dict[str, tuple[Node, Verdict]] = {}

    def judge(self, node: Node) -> Verdict:
        name = node.metadata.name
        cached = self._judged.get(name)
        if cached is not None and cached[0] is node:
            return cached[1]
        verdict = self._verdict(node)
        self._judged[name] = (node, verdict)
        return verdict

    def known(self, name: str) -> Verdict | None:
        """Return the last decision about the node, if any."""
        cached = self._judged.get(name)
        return cached[1] if cached is not None else None

    def forget(self, name: str) -> bool:
        """Forget a deleted node; return whether a decision about it was cached."""
        return self._judged.pop(name, None) is not None

    def _verdict(self, node: Node) -> Verdict:
        if self._node_name not in ("", node.metadata.name) or not self._affinity.matches(node):
            return _NO
        effects = {
            taint.effect for taint in untolerated(node.spec.taints, self._tolerations, (NO_SCHEDULE, NO_EXECUTE))
        }
        if NO_EXECUTE in effects:
            return _NO
        return _STAYS if NO_SCHEDULE in effects else _YES
