"""The graph of owner references between objects that have owners, have dependents, or wait for dependents.

No other objects are stored. An owner that is named by a dependent but has not been observed is *virtual* until the
server was queried. Nodes that need attention are passed to `look`; the graph does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from sampan.api.resources.resource import Resource
from sampan.controllers.garbage.ownership import OwnedObject, OwnerRef
from sampan.machinery.object_key import NamespacedName

OwnerKind = tuple[str, str]
"""The apiVersion and kind of an owner reference."""


class GraphNode(msgspec.Struct, eq=False, gc=False):
    """One object. Nodes compare by identity, so that they can be keys of a work queue."""

    kind: ResourceNodes
    key: NamespacedName
    uid: str
    owners: tuple[OwnerRef, ...] = ()
    dependents: set[GraphNode] | None = None
    is_virtual: bool = False
    is_deleted: bool = False
    waits_for_dependents: bool = False
    orphans_dependents: bool = False

    def __str__(self) -> str:
        return f"{self.kind.resource.qualified} {self.key}"

    @property
    def matters(self) -> bool:
        """Whether the node must be kept in the graph."""
        return bool(self.owners or self.dependents or self.waits_for_dependents or self.orphans_dependents)

    def blocks(self, owner: GraphNode) -> bool:
        """Whether an owner reference of this node blocks the deletion of the owner."""
        return any(ref.uid == owner.uid and bool(ref.blockOwnerDeletion) for ref in self.owners)


class ResourceNodes:
    """The nodes of the graph that stand for the objects of one resource."""

    __slots__ = ("present", "resource", "virtual")

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.present: dict[NamespacedName, GraphNode] = {}
        self.virtual: dict[NamespacedName, dict[str, GraphNode]] = {}
        """Virtual nodes by key and UID. Dependents may name several UIDs under one name, also beside a present object.
        """

    def find(self, key: NamespacedName, uid: str) -> GraphNode | None:
        node = self.present.get(key)
        if node is not None and node.uid == uid:
            return node
        return self.virtual[key].get(uid) if key in self.virtual else None

    def take_virtual(self, key: NamespacedName, uid: str) -> GraphNode | None:
        by_uid = self.virtual.get(key)
        if by_uid is None:
            return None
        node = by_uid.pop(uid, None)
        if not by_uid:
            del self.virtual[key]
        return node


class DependencyGraph:
    def __init__(self, look: Callable[[GraphNode], None]) -> None:
        self._enqueue = look
        self._kinds: Mapping[OwnerKind, Resource] = {}
        self._nodes: dict[tuple[str, str], ResourceNodes] = {}
        self._unknown: dict[OwnerKind, set[GraphNode]] = {}
        """Dependents that name an owner of a kind that is not served (yet)."""

    # -- objects -----------------------------------------------------------------------------------------------------

    def set_kinds(self, kinds: Mapping[OwnerKind, Resource]) -> None:
        """Replace the kinds that owner references can resolve to, and link dependents that waited for them."""
        self._kinds = kinds
        for kind in [kind for kind in self._unknown if kind in kinds]:
            for node in self._unknown.pop(kind):
                self._link(node, [ref for ref in node.owners if (ref.apiVersion, ref.kind) == kind])

    def nodes(self, resource: Resource) -> ResourceNodes:
        identity = (resource.group, resource.plural)
        nodes = self._nodes.get(identity)
        if nodes is None:
            nodes = self._nodes[identity] = ResourceNodes(resource)
        return nodes

    def serve_as(self, resource: Resource) -> None:
        """Switch the resource to this version."""
        self.nodes(resource).resource = resource

    def put(self, nodes: ResourceNodes, key: NamespacedName, obj: OwnedObject) -> None:
        """Insert or update an object."""
        node, uid = nodes.present.get(key), obj.metadata.uid
        if node is not None and node.uid != uid:
            self.remove_node(node)
            node = None
        if node is None:
            node = self._add_node(nodes, key, obj)
            if node is None:
                return
        self._update(node, obj)
        if not node.matters:
            nodes.present.pop(key, None)

    def remove(self, nodes: ResourceNodes, key: NamespacedName) -> None:
        """Process the deletion of the object with that name."""
        node = nodes.present.get(key)
        if node is not None:
            self.remove_node(node)
        for owner in list(nodes.virtual.get(key, {}).values()):
            self._enqueue(owner)

    def remove_node(self, node: GraphNode) -> None:
        """Process that the object with exactly this UID was deleted or never existed."""
        nodes = node.kind
        if nodes.present.get(node.key) is node:
            del nodes.present[node.key]
        elif node.is_virtual:
            nodes.take_virtual(node.key, node.uid)
        self._unlink(node, node.owners)
        for dependent in list(node.dependents or ()):
            self._enqueue(dependent)
        node.dependents = None

    def resource_of_owner(self, ref: OwnerRef) -> Resource | None:
        """Return the resource of an owner reference, or None if its kind is not served."""
        return self._kinds.get((ref.apiVersion, ref.kind))

    def size(self) -> int:
        return sum(len(nodes.present) + len(nodes.virtual) for nodes in self._nodes.values())

    # -- internals ---------------------------------------------------------------------------------------------------

    def _add_node(self, nodes: ResourceNodes, key: NamespacedName, obj: OwnedObject) -> GraphNode | None:
        node = nodes.take_virtual(key, obj.metadata.uid)
        for owner in list(nodes.virtual.get(key, {}).values()):
            self._enqueue(owner)  # Another object has that name, so that the virtual owner may not exist.
        if node is None:
            if not (obj.owners or obj.waits_for_dependents or obj.orphans_dependents):
                return None
            node = GraphNode(nodes, key, obj.metadata.uid)
        node.is_virtual = False
        nodes.present[key] = node
        return node

    def _update(self, node: GraphNode, obj: OwnedObject) -> None:
        if obj.owners != node.owners:
            self._change_owners(node, obj.owners)
        node.is_deleted = obj.is_deleted
        waited, let_go = node.waits_for_dependents, node.orphans_dependents
        node.waits_for_dependents, node.orphans_dependents = obj.waits_for_dependents, obj.orphans_dependents
        if node.orphans_dependents:
            if not let_go:
                self._enqueue(node)
        elif node.waits_for_dependents and not (waited and not let_go):
            for dependent in node.dependents or ():
                self._enqueue(dependent)
            self._enqueue(node)

    def _change_owners(self, node: GraphNode, owners: tuple[OwnerRef, ...]) -> None:
        before = node.owners
        node.owners = owners
        new_owners = set(owners)
        self._unlink(node, [ref for ref in before if ref not in new_owners])
        self._link(node, owners)

    def _link(self, node: GraphNode, owners: Iterable[OwnerRef]) -> None:
        for number, ref in enumerate(owners):
            resource = self._kinds.get((ref.apiVersion, ref.kind))
            if resource is None:
                self._unknown.setdefault((ref.apiVersion, ref.kind), set()).add(node)
            elif resource.namespaced and not node.key.namespace:
                self._enqueue(node)  # A cluster-scoped object cannot have a namespaced owner.
            else:
                owner = self._owner(ref, resource, node)
                if number == 0:
                    _share_owners(node, owner)
                self._add_dependent(node, owner)

    def _owner(self, ref: OwnerRef, resource: Resource, dependent: GraphNode) -> GraphNode:
        nodes = self.nodes(resource)
        key = NamespacedName(dependent.key.namespace if resource.namespaced else "", ref.name)
        owner = nodes.find(key, ref.uid)
        if owner is None:
            owner = GraphNode(nodes, key, ref.uid, is_virtual=True)
            nodes.virtual.setdefault(key, {})[ref.uid] = owner
            self._enqueue(owner)
        return owner

    def _add_dependent(self, node: GraphNode, owner: GraphNode) -> None:
        owner.dependents = owner.dependents or set()
        owner.dependents.add(node)
        if owner.waits_for_dependents:
            self._enqueue(node)

    def _unlink(self, node: GraphNode, owners: Iterable[OwnerRef]) -> None:
        for ref in owners:
            kind = (ref.apiVersion, ref.kind)
            resource = self._kinds.get(kind)
            if resource is None:
                self._unknown.get(kind, set()).discard(node)
                continue
            nodes = self.nodes(resource)
            owner = nodes.find(NamespacedName(node.key.namespace if resource.namespaced else "", ref.name), ref.uid)
            if owner is not None:
                self._remove_dependent(node, owner)

    def _remove_dependent(self, node: GraphNode, owner: GraphNode) -> None:
        if owner.dependents is not None:
            owner.dependents.discard(node)
            owner.dependents = owner.dependents or None
        if owner.waits_for_dependents:
            self._enqueue(owner)
        elif not owner.matters:
            if owner.is_virtual:
                owner.kind.take_virtual(owner.key, owner.uid)
            else:
                owner.kind.present.pop(owner.key, None)


def _share_owners(node: GraphNode, owner: GraphNode) -> None:
    """Let the node and a dependent of its first owner share one tuple of owner references to save memory."""
    sibling = next(iter(owner.dependents or ()), None)
    if sibling is not None and sibling.owners == node.owners:
        node.owners = sibling.owners
