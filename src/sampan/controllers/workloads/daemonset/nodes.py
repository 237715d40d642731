"""Mapping of node changes to the DaemonSets whose placement decision they affect."""

from collections.abc import Iterable

from sampan.api.types.apps_v1 import DaemonSet
from sampan.api.types.core_v1 import Node
from sampan.controllers.workloads.daemonset.placement import Placement
from sampan.machinery.informer import Lister
from sampan.machinery.object_key import Key, key_of


class Placements:
    """The placement of each DaemonSet, built once per generation."""

    def __init__(self, *, sets: Lister[DaemonSet], nodes: Lister[Node]) -> None:
        self._sets, self._nodes = sets, nodes
        self._made: dict[Key, tuple[str, int, Placement]] = {}

    def of(self, daemon_set: DaemonSet) -> Placement:
        meta, key = daemon_set.metadata, key_of(daemon_set)
        cached = self._made.get(key)
        if cached is not None and cached[:2] == (meta.uid, meta.generation):
            return cached[2]
        placement = Placement(daemon_set.spec.template.spec)
        self._made[key] = (meta.uid, meta.generation, placement)
        return placement

    def forget(self, key: Key) -> None:
        self._made.pop(key, None)

    def keys(self, node: Node) -> Iterable[Key]:
        """Return the DaemonSets whose decision about the node has changed.

        The watch also passes the previous state of a changed node, which is ignored.
        """
        present = self._nodes.get(node.metadata.name)
        if present is None:
            return [key_of(daemon_set) for daemon_set in self._sets if self.of(daemon_set).forget(node.metadata.name)]
        if present is not node:
            return ()
        return [key_of(daemon_set) for daemon_set in self._sets if self._is_news(daemon_set, node)]

    def _is_news(self, daemon_set: DaemonSet, node: Node) -> bool:
        placement = self.of(daemon_set)
        before = placement.known(node.metadata.name)
        now = placement.judge(node)
        return now.stays if before is None else now != before
