"""ttl-controller: an annotation tells kubelets how long they may keep secrets and config maps; longer in a large
cluster, so that the API server is asked less."""

from collections.abc import Hashable, Iterable

from sampan.api.types.core_v1 import Node
from sampan.controllers.descriptor import Parts
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.controller import Watch
from sampan.machinery.informer import Informer

ANNOTATION = "node.alpha.kubernetes.io/ttl"
_STEPS = ((0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, 1 << 31, 300))
"""From how many nodes, to how many, the seconds. They overlap, so that a node that comes and goes changes nothing."""


def next_step(step: int, nodes: int) -> int:
    """Where a cluster of so many nodes is that was at `step` before."""
    while nodes > _STEPS[step][1]:
        step += 1
    while nodes < _STEPS[step][0]:
        step -= 1
    return step


def _name(node: Node) -> Iterable[Hashable]:
    return (node.metadata.name,)


class Ttl:
    name = "ttl-controller"
    watches = (Watch(resource_of(Node), _name),)

    def __init__(self, *, client: Client, nodes: Informer[Node]) -> None:
        self._client, self._nodes = client.of(Node), nodes.lister
        self._step = 0

    async def reconcile(self, key: str) -> None:
        """Nodes that are not looked at when a step is taken have their turn with their next heartbeat."""
        self._step = next_step(self._step, len(self._nodes))
        node, wanted = self._nodes.get(key), str(_STEPS[self._step][2])
        if node is None or node.metadata.annotations.get(ANNOTATION) == wanted:
            return
        try:
            await self._client.patch(key, {"metadata": {"annotations": {ANNOTATION: wanted}}})
        except errors.NotFound:
            return


def make(parts: Parts) -> Ttl:
    return Ttl(client=parts.client_for(Ttl.name), nodes=parts.informers.of(Node))
