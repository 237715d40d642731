"""Watches on all served resources, started and stopped as resources come and go, that feed the graph."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from sampan.api.resource import Resource
from sampan.controllers.garbage.graph import Graph, Nodes
from sampan.controllers.garbage.objects import Objects
from sampan.controllers.garbage.ownership import Owned
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import Key

Identity = tuple[str, str]
"""Group and plural of a resource."""


class _Sink:
    """Feeds the watch events of one resource into the graph."""

    def __init__(self, graph: Graph, nodes: Nodes, step: Callable[[], None], filled: Callable[[], None]) -> None:
        self._graph, self._nodes, self._step = graph, nodes, step
        self.filled = filled

    def put(self, key: Key, obj: Owned) -> None:
        nodes, meta = self._nodes, obj.metadata
        is_plain = meta.ownerReferences is None and meta.deletionTimestamp is None
        if is_plain and key not in nodes.present and key not in nodes.virtual:
            return  # Most objects neither have owners nor own anything.
        self._step()
        self._graph.put(nodes, key, obj)

    def remove(self, key: Key) -> None:
        if key in self._nodes.present or key in self._nodes.virtual:
            self._step()
            self._graph.remove(self._nodes, key)

    def known(self) -> Sequence[Key]:
        return [*self._nodes.present, *self._nodes.virtual]


class Following:
    def __init__(self, *, graph: Graph, objects: Objects, informers: InformerFactory) -> None:
        self._graph, self._objects, self._informers = graph, objects, informers
        self._stops: dict[Identity, Callable[[], None]] = {}
        self.followed: dict[Identity, Resource] = {}
        """The resources that are watched now."""
        self._unfilled: set[Identity] = set()
        self._complete = asyncio.Event()

    def follow(self, resources: Mapping[Identity, Resource]) -> None:
        """Watch exactly these resources."""
        for identity in [followed for followed in self._stops if resources.get(followed) != self.followed[followed]]:
            self._stops.pop(identity)()
            del self.followed[identity]
            self._unfilled.discard(identity)
        for identity, resource in resources.items():
            if identity not in self._stops:
                self._start(identity, resource)
        self._check()

    async def complete(self, patience_s: float) -> None:
        """Wait until all initial lists are in the graph, but at most `patience_s` seconds: a resource that cannot be
        listed must not prevent the collection of all others."""
        if not self._complete.is_set():
            try:
                await asyncio.wait_for(self._complete.wait(), patience_s)
            except TimeoutError:
                self._complete.set()

    def _start(self, identity: Identity, resource: Resource) -> None:
        self._graph.serve_as(resource)
        sink = _Sink(
            self._graph, self._graph.nodes(resource), self._informers.activity.step, lambda: self._filled(identity)
        )
        self._unfilled.add(identity)
        self.followed[identity] = resource
        self._stops[identity] = self._informers.follow(self._objects.of(resource), sink)

    def _filled(self, identity: Identity) -> None:
        self._unfilled.discard(identity)
        self._informers.activity.step()
        self._check()

    def _check(self) -> None:
        if self._stops and not self._unfilled:
            self._complete.set()
