"""A scheduler plugin: pods that ask for quiet keep away from noisy neighbors, and fill quiet nodes first."""

from sampan.api.types.core_v1 import Pod
from sampan.scheduler.framework import Handle, NodeView, ScalarPlugin

LABEL, QUIET, NOISY = "noise", "quiet", "noisy"


class QuietNeighbors(ScalarPlugin):
    name = "QuietNeighbors"

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle)
        self._most_noisy = int(handle.args.get("mostNoisy", 0))

    def filter_node(self, pod: Pod, node: NodeView) -> str:
        """Why the node will not do; empty if it will."""
        if pod.metadata.labels.get(LABEL) != QUIET or self._noisy(node) <= self._most_noisy:
            return ""
        return "node(s) had noisy neighbors"

    def score_node(self, pod: Pod, node: NodeView) -> int:
        """0 to 100: noisy pods stay with their kind."""
        if pod.metadata.labels.get(LABEL) != NOISY:
            return 0
        return min(100, 25 * self._noisy(node))

    def _noisy(self, node: NodeView) -> int:
        return sum(other.metadata.labels.get(LABEL) == NOISY for other in node.pods)
