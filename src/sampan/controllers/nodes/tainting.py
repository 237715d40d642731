"""Changes of a node's taints that are safe against concurrent updates of the node."""

from collections.abc import Sequence

from sampan.api.types.core_v1 import Node
from sampan.controllers.nodes import taints
from sampan.machinery import errors
from sampan.machinery.client import Client, PatchType
from sampan.machinery.clock import Clock

_ATTEMPTS = 5


class Tainting:
    def __init__(self, *, client: Client, clock: Clock) -> None:
        self._nodes, self._clock = client.of(Node), clock

    async def change(self, node: Node, effect: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add and remove taints with these keys and this effect, retrying on conflict.

        Nothing is written if nothing changes or the node does not exist.
        """
        for attempt in range(_ATTEMPTS):
            desired = taints.changed(node.spec.taints, effect, add=add, remove=remove, now=self._clock.now())
            if desired == node.spec.taints:
                return
            try:
                patch = taints.taint_patch(node, desired)
                await self._nodes.patch(node.metadata.name, patch, type=PatchType.MERGE)
                return
            except errors.NotFound:
                return
            except errors.Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
            try:
                node = await self._nodes.get(node.metadata.name)
            except errors.NotFound:
                return
