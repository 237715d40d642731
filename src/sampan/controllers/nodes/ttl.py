"""ttl-controller, which annotates nodes with the time for which kubelets may cache secrets and config maps.

The time grows with the cluster, so that the load on the API server stays bounded.
"""

from sampan.api.types.core_v1 import Node
from sampan.controllers.nodes.pods import node_name
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.informer import InformerFactory

ANNOTATION = "node.alpha.kubernetes.io/ttl"
_STEPS = ((0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, 1 << 31, 300))
"""Minimum and maximum number of nodes, and the TTL in seconds. The steps overlap to avoid flapping."""


def next_step(step: int, nodes: int) -> int:
    """Return the step for a cluster of that size that was at `step` before."""
    while nodes > _STEPS[step][1]:
        step += 1
    while nodes < _STEPS[step][0]:
        step -= 1
    return step


class TtlController:
    name = "ttl-controller"

    def __init__(self, *, client: Client, informers: InformerFactory) -> None:
        self._client, self._nodes = client.for_kind(Node), informers.for_kind(Node).lister
        self._step = 0
        self.watches = (Watch(resource_of(Node), node_name),)

    async def reconcile(self, key: str) -> None:
        """Update the annotation of one node. After a change of step, other nodes follow on their next status update."""
        self._step = next_step(self._step, len(self._nodes))
        node, ttl = self._nodes.get(key), str(_STEPS[self._step][2])
        if node is None or node.metadata.annotations.get(ANNOTATION) == ttl:
            return
        try:
            await self._client.patch(key, {"metadata": {"annotations": {ANNOTATION: ttl}}})
        except errors.NotFound:
            return
