"""garbage-collector-controller, which checks the objects that the graph enqueues against the server, and deletes or
changes them as decided."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Any

from sampan.api.resources.resource import Resource
from sampan.api.types.apiextensions_v1 import CustomResourceDefinition
from sampan.api.types.apiregistration_v1 import APIService
from sampan.api.types.core_v1 import ObjectReference
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.garbage.decisions import (
    ClassifiedOwners,
    GarbageDecision,
    ObjectDeletion,
    ReferenceRemoval,
    decide,
    remove_owners_merge_patch,
    remove_owners_patch,
    unblock_merge_patch,
    unblock_patch,
)
from sampan.controllers.garbage.graph import DependencyGraph, GraphNode
from sampan.controllers.garbage.monitors import ResourceMonitors, catalog_of
from sampan.controllers.garbage.objects import AbsentOwners, ObjectAccess
from sampan.controllers.garbage.ownership import FOREGROUND, ORPHAN, OwnedObject, OwnerRef
from sampan.host.clock import Clock
from sampan.host.time_slice import TimeSlice
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.client.discovery import Discovery
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.decisions import note_decision
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName

Discover = Callable[[], Awaitable[tuple[Sequence[Resource], str]]]
"""Return the served resources, in every version, and the discovery failure (empty if there was none)."""

DISCOVERY = "discovery"
"""The key under which discovery is repeated."""
_DISCOVERY_INTERVAL_S = 30.0
_INITIAL_PAUSE_S = 0.1
_UNKNOWN_KIND_RETRY_S = 300.0
"""How often, in seconds, an object is retried whose owner has a kind that is not served."""
_SYNC_TIMEOUT_S = 30.0
_TOGETHER = 20


def _discovery_keys(obj: Any) -> Iterable[Hashable]:
    return (DISCOVERY,)


class _UnknownOwnerKind(Exception):
    """The owner's kind is not served, so that its existence cannot be decided."""


class _MisplacedOwner(Exception):
    """A cluster-scoped object names a namespaced owner. Such a reference is never acted upon."""


class GarbageCollectorController:
    name = "garbage-collector-controller"

    def __init__(
        self, *, client: Client, informers: InformerFactory, discover: Discover, events: EventRecorder, clock: Clock
    ) -> None:
        self._objects, self._discover, self._events, self._clock = ObjectAccess(client), discover, events, clock
        self._definitions = informers.informer(resource_of(CustomResourceDefinition), metadata_only=True).lister
        self.graph = DependencyGraph(self._enqueue)
        self._monitors = ResourceMonitors(graph=self.graph, objects=self._objects, informers=informers)
        self._absent = AbsentOwners()
        self._add: Callable[[Hashable], None] = lambda key: None
        self._read_at = float("-inf")
        self._pause_s = _INITIAL_PAUSE_S
        """Seconds until discovery is repeated while the resource of a CustomResourceDefinition is not served."""
        self.watches = (
            Watch(resource_of(CustomResourceDefinition), _discovery_keys, metadata_only=True),
            Watch(resource_of(APIService), _discovery_keys, metadata_only=True),
        )

    def feed(self, add: Callable[[Hashable], None]) -> None:
        self._add = add
        add(DISCOVERY)

    def _enqueue(self, node: GraphNode) -> None:
        self._add(node)

    async def reconcile(self, key: Any) -> float | None:
        if key == DISCOVERY:
            return await self._discover_resources()
        await self._monitors.wait_until_complete(_SYNC_TIMEOUT_S)
        node: GraphNode = key
        if node.is_virtual:
            return await self._verify(node)
        if node.orphans_dependents:
            await self._orphan(node)
        elif node.waits_for_dependents:
            await self._finish(node)
        elif not node.is_deleted:
            return await self._collect(node)
        return None

    # -- discovery ---------------------------------------------------------------------------------------------------

    async def _discover_resources(self) -> float | None:
        self._read_at = self._clock.monotonic()
        served, failure = await self._discover()
        catalog = catalog_of(served)
        if not catalog.resources:
            return _DISCOVERY_INTERVAL_S
        monitored = dict(catalog.monitored)
        if failure:  # Resources of groups whose discovery failed continue to be watched.
            monitored = {**self._monitors.monitored, **monitored}
        self.graph.set_kinds(catalog.by_kind)
        self._monitors.follow(monitored)
        if failure:
            return _DISCOVERY_INTERVAL_S
        if all(
            _parse_definition_name(definition.metadata.name) in catalog.resources for definition in self._definitions
        ):
            self._pause_s = _INITIAL_PAUSE_S
            return None
        self._pause_s = min(2 * self._pause_s, _UNKNOWN_KIND_RETRY_S)
        return self._pause_s

    # -- virtual owners ----------------------------------------------------------------------------------------------

    async def _verify(self, node: GraphNode) -> float | None:
        """Check whether the owner that a dependent names exists. An existing owner of a resource that cannot be watched
        is checked again later."""
        resource, key, uid = node.kind.resource, node.key, node.uid
        obj = await self._objects.read(resource, key)
        if not node.is_virtual:
            return None  # The watch event of the owner arrived during the request.
        if obj is not None and obj.metadata.uid == uid:
            if (resource.group, resource.plural) not in self._monitors.monitored:
                return _UNKNOWN_KIND_RETRY_S
            self.graph.put(node.kind, key, obj)
            return None
        self._absent.add(resource, key, uid)
        if resource.namespaced and await self._objects.exists_in_any_namespace(resource, key.name, uid):
            async for dependent in TimeSlice().iterate(list(node.dependents or ())):
                self._report(dependent, uid)
        self.graph.remove_node(node)
        return None

    def _report(self, node: GraphNode, uid: str) -> None:
        for ref in node.owners:
            if ref.uid == uid:
                return self._events.event(
                    _reference(node), WARNING, "OwnerRefInvalidNamespace", _format_misplaced_owner(ref, node)
                )

    # -- dependents --------------------------------------------------------------------------------------------------

    async def _collect(self, node: GraphNode) -> float | None:
        """Delete the object if no owner is left; otherwise remove the references to absent or waiting owners."""
        resource, key = node.kind.resource, node.key
        obj = await self._objects.read(resource, key)
        if obj is None or obj.metadata.uid != node.uid:
            self.graph.remove_node(node)
            return None
        try:
            owners = await self._owners(node, obj)
        except _UnknownOwnerKind:
            if self._clock.monotonic() - self._read_at >= _DISCOVERY_INTERVAL_S:
                self._add(DISCOVERY)
            return _UNKNOWN_KIND_RETRY_S
        except _MisplacedOwner:
            return None
        dependents = node.dependents or ()
        waits = any(dependent.waits_for_dependents for dependent in dependents)
        decision = decide(obj, owners, has_dependents=bool(dependents), dependent_waits=waits)
        if decision is not None:
            have = f"{len(owners.solid)} owners, {len(owners.absent)} absent, {len(owners.waiting)} being deleted"
            action = "remove references of" if isinstance(decision, ReferenceRemoval) else "delete"
            note_decision("an owner that exists", have, f"{action} {resource.qualified} {key}")
        await self._carry_out(decision, node, obj)
        return None

    async def _carry_out(self, decision: GarbageDecision, node: GraphNode, obj: OwnedObject) -> None:
        if isinstance(decision, ReferenceRemoval):
            await self._remove_owners(node, decision.uids)
        elif isinstance(decision, ObjectDeletion):
            await self._remove(node, obj, decision)

    async def _remove(self, node: GraphNode, obj: OwnedObject, removal: ObjectDeletion) -> None:
        resource, key = node.kind.resource, node.key
        if removal.unblocks:
            patch = unblock_patch(node.uid, obj.owners)
            await self._objects.patch(resource, key, patch, unblock_merge_patch)
            fresh = await self._objects.read(resource, key)
            if fresh is None or fresh.metadata.uid != node.uid:
                return self.graph.remove_node(node)
            obj = fresh
        if not await self._objects.delete(resource, key, obj, removal.propagation):
            self.graph.remove_node(node)

    async def _owners(self, node: GraphNode, obj: OwnedObject) -> ClassifiedOwners:
        owners = ClassifiedOwners()
        async for ref in TimeSlice().iterate(obj.owners):
            owner = await self._owner(node, ref)
            if owner is None:
                owners.absent.append(ref)
            elif owner.waits_for_dependents:
                owners.waiting.append(ref)
            else:
                owners.solid.append(ref)
        return owners

    async def _owner(self, node: GraphNode, ref: OwnerRef) -> OwnedObject | None:
        resource = self.graph.resource_of_owner(ref)
        if resource is None:
            raise _UnknownOwnerKind
        if resource.namespaced and not node.key.namespace:
            if await self._objects.exists_in_any_namespace(resource, ref.name, ref.uid):
                self._report(node, ref.uid)
            raise _MisplacedOwner
        key = NamespacedName(node.key.namespace if resource.namespaced else "", ref.name)
        if self._absent.has(resource, key, ref.uid):
            return None
        owner = await self._objects.read(resource, key)
        if owner is None or owner.metadata.uid != ref.uid:
            self._absent.add(resource, key, ref.uid)
            return None
        return owner

    # -- owners that are being deleted -------------------------------------------------------------------------------

    async def _finish(self, node: GraphNode) -> None:
        """Remove the foregroundDeletion finalizer once no blocking dependent is left."""
        is_blocked = False
        async for dependent in TimeSlice().iterate(list(node.dependents or ())):
            if dependent.blocks(node):
                is_blocked = True
                if not dependent.waits_for_dependents:
                    self._add(dependent)
        if not is_blocked:
            await self._objects.remove_finalizer(node.kind.resource, node.key, node.uid, FOREGROUND)

    async def _orphan(self, node: GraphNode) -> None:
        """Remove the owner reference from all dependents, then the orphan finalizer from the owner."""
        limit = asyncio.Semaphore(_TOGETHER)

        async def remove_owner(dependent: GraphNode) -> None:
            async with limit:
                await self._remove_owners(dependent, [node.uid])

        async with asyncio.TaskGroup() as group:
            for dependent in list(node.dependents or ()):
                group.create_task(remove_owner(dependent))
        await self._objects.remove_finalizer(node.kind.resource, node.key, node.uid, ORPHAN)

    async def _remove_owners(self, node: GraphNode, owners: Sequence[str]) -> None:
        try:
            await self._objects.patch(
                node.kind.resource,
                node.key,
                remove_owners_patch(node.uid, owners),
                lambda meta: remove_owners_merge_patch(meta, owners),
            )
        except errors.NotFound:
            return


def _parse_definition_name(definition: str) -> tuple[str, str]:
    """Return group and plural from the name of a CustomResourceDefinition."""
    plural, _, group = definition.partition(".")
    return group, plural


def _reference(node: GraphNode) -> ObjectReference:
    resource = node.kind.resource
    return ObjectReference(
        kind=resource.kind,
        apiVersion=resource.api_version,
        namespace=node.key.namespace,
        name=node.key.name,
        uid=node.uid,
    )


def _format_misplaced_owner(ref: OwnerRef, node: GraphNode) -> str:
    namespace = node.key.namespace
    owner = f"[{ref.apiVersion}/{ref.kind}, namespace: {namespace}, name: {ref.name}, uid: {ref.uid}]"
    return f'ownerRef {owner} does not exist in namespace "{namespace}"'


def make(context: ControllerContext) -> GarbageCollectorController:
    client = context.client
    return context.build(GarbageCollectorController, client=client, discover=Discovery(client).discover_served)
