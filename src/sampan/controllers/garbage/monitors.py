"""The resources whose owner references are watched, and the watches (`GraphBuilder` and its monitors in Kubernetes)."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sampan.api.resources.resource import Resource
from sampan.controllers.garbage.graph import DependencyGraph, OwnerKind, ResourceNodes
from sampan.controllers.garbage.objects import ObjectAccess
from sampan.controllers.garbage.ownership import OwnedObject
from sampan.machinery.client.discovery import select_first_versions
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName

_NEEDED = {"delete", "list", "watch"}
_IGNORED = {("", "events"), ("events.k8s.io", "events")}
"""Events are excluded: there are too many of them, and they expire."""


def is_monitored(resource: Resource) -> bool:
    """Whether the objects of the resource are subject to garbage collection."""
    return set(resource.verbs) >= _NEEDED and (resource.group, resource.plural) not in _IGNORED


@dataclass(frozen=True, slots=True)
class ServedResources:
    """The resources that were served at one time."""

    resources: Mapping[tuple[str, str], Resource] = field(default_factory=dict)
    """Each resource in its preferred version, by group and plural."""
    by_kind: Mapping[OwnerKind, Resource] = field(default_factory=dict)
    """The resource of each kind in any served version, always in its preferred version."""

    @property
    def monitored(self) -> Mapping[tuple[str, str], Resource]:
        return {key: resource for key, resource in self.resources.items() if is_monitored(resource)}


def catalog_of(served: Iterable[Resource]) -> ServedResources:
    """Return the catalog of resources in all versions, with the preferred version first."""
    served = list(served)
    preferred = {(resource.group, resource.plural): resource for resource in select_first_versions(served)}
    by_kind: dict[OwnerKind, Resource] = {}
    for resource in served:
        if "get" in resource.verbs:
            by_kind.setdefault((resource.api_version, resource.kind), preferred[resource.group, resource.plural])
    return ServedResources(preferred, by_kind)


Identity = tuple[str, str]
"""Group and plural of a resource."""


class _GraphSink:
    """Feeds the watch events of one resource into the graph."""

    def __init__(
        self, graph: DependencyGraph, nodes: ResourceNodes, step: Callable[[], None], mark_synced: Callable[[], None]
    ) -> None:
        self._graph, self._nodes, self._step = graph, nodes, step
        self.mark_synced = mark_synced

    def put(self, key: NamespacedName, obj: OwnedObject) -> None:
        nodes, meta = self._nodes, obj.metadata
        is_plain = meta.ownerReferences is None and meta.deletionTimestamp is None
        if is_plain and key not in nodes.present and key not in nodes.virtual:
            return  # Most objects neither have owners nor own anything.
        self._step()
        self._graph.put(nodes, key, obj)

    def remove(self, key: NamespacedName) -> None:
        if key in self._nodes.present or key in self._nodes.virtual:
            self._step()
            self._graph.remove(self._nodes, key)

    def list_keys(self) -> Sequence[NamespacedName]:
        return [*self._nodes.present, *self._nodes.virtual]


class ResourceMonitors:
    def __init__(self, *, graph: DependencyGraph, objects: ObjectAccess, informers: InformerFactory) -> None:
        self._graph, self._objects, self._informers = graph, objects, informers
        self._stops: dict[Identity, Callable[[], None]] = {}
        self.monitored: dict[Identity, Resource] = {}
        """The resources that are watched now."""
        self._unfilled: set[Identity] = set()
        self._complete = asyncio.Event()

    def follow(self, resources: Mapping[Identity, Resource]) -> None:
        """Watch exactly these resources."""
        for identity in [
            identity_key for identity_key in self._stops if resources.get(identity_key) != self.monitored[identity_key]
        ]:
            self._stops.pop(identity)()
            del self.monitored[identity]
            self._unfilled.discard(identity)
        for identity, resource in resources.items():
            if identity not in self._stops:
                self._start(identity, resource)
        self._check()

    async def wait_until_complete(self, patience_s: float) -> None:
        """Wait until all initial lists are in the graph, but at most `patience_s` seconds: a resource that cannot be
        listed must not prevent the collection of all others."""
        if not self._complete.is_set():
            try:
                # asyncio.wait_for of Python 3.11 loses a cancellation that coincides with the event
                async with asyncio.timeout(patience_s):
                    await self._complete.wait()
            except TimeoutError:
                self._complete.set()

    def _start(self, identity: Identity, resource: Resource) -> None:
        self._graph.serve_as(resource)
        sink = _GraphSink(
            self._graph, self._graph.nodes(resource), self._informers.activity.step, lambda: self._on_filled(identity)
        )
        self._unfilled.add(identity)
        self.monitored[identity] = resource
        self._stops[identity] = self._informers.follow(self._objects.make_client(resource), sink)

    def _on_filled(self, identity: Identity) -> None:
        self._unfilled.discard(identity)
        self._informers.activity.step()
        self._check()

    def _check(self) -> None:
        if self._stops and not self._unfilled:
            self._complete.set()
