"""Reads and writes of arbitrary objects by their owner references, and a cache of owners that do not exist."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from sampan.api.resources.resource import Resource
from sampan.controllers.garbage.decisions import DeletionPropagation, remove_finalizer_patch
from sampan.controllers.garbage.ownership import OWNERSHIP, OwnedObject
from sampan.machinery import errors
from sampan.machinery.client import Client, DeleteParameters, PatchType, Selection
from sampan.machinery.client.client import ResourceClient
from sampan.machinery.object_key import NamespacedName

_ATTEMPTS = 5


class ObjectAccess:
    def __init__(self, client: Client) -> None:
        self._client = client

    def make_client(self, resource: Resource) -> ResourceClient[OwnedObject]:
        return ResourceClient(client=self._client, resource=resource, codec=OWNERSHIP)

    async def read(self, resource: Resource, key: NamespacedName) -> OwnedObject | None:
        """Return the object from the server, or None if it does not exist.

        Raise NotFound if the resource itself is not served: the object may exist nevertheless.
        """
        try:
            return await self.make_client(resource).get(key.name, key.namespace)
        except errors.NotFound as error:
            if error.details.get("name") != key.name:
                raise
            return None

    async def exists_in_any_namespace(self, resource: Resource, name: str, uid: str) -> bool:
        """Whether an object with that name and UID exists in any namespace."""
        listed = await self.make_client(resource).list(Selection(fields=f"metadata.name={name}"))
        return any(obj.metadata.uid == uid for obj in listed.items)

    async def delete(
        self, resource: Resource, key: NamespacedName, obj: OwnedObject, propagation: DeletionPropagation
    ) -> bool:
        """Delete the object, with preconditions. Return False if it does not exist.

        After a conflict the delete is repeated without the resourceVersion if UID and owner references are unchanged.
        """
        try:
            await self._delete(resource, key, obj, propagation, obj.metadata.resourceVersion)
        except errors.NotFound:
            return False
        except errors.Conflict:
            live = await self.read(resource, key)
            if live is None:
                return False
            if live.metadata.uid != obj.metadata.uid or live.owners != obj.owners:
                raise
            return await self._delete_any_version(resource, key, obj, propagation)
        return True

    async def _delete_any_version(
        self, resource: Resource, key: NamespacedName, obj: OwnedObject, propagation: DeletionPropagation
    ) -> bool:
        try:
            await self._delete(resource, key, obj, propagation, "")
        except errors.NotFound:
            return False
        return True

    async def _delete(
        self, resource: Resource, key: NamespacedName, obj: OwnedObject, propagation: DeletionPropagation, version: str
    ) -> None:
        options = DeleteParameters(propagation=propagation.value, uid=obj.metadata.uid, resource_version=version)
        await self.make_client(resource).delete(key.name, key.namespace, options=options)

    async def patch(
        self,
        resource: Resource,
        key: NamespacedName,
        patch: Mapping[str, Any],
        by_merge: Callable[[Any], Mapping[str, Any]],
    ) -> None:
        """Apply a strategic merge patch. If the kind does not support it, apply the JSON merge patch that `by_merge`
        builds."""
        try:
            await self.make_client(resource).patch(key.name, patch, key.namespace)
        except errors.UnsupportedMediaType:
            current = await self._client.metadata(resource).get(key.name, key.namespace)
            merged = by_merge(current.metadata)
            await self.make_client(resource).patch(key.name, merged, key.namespace, type=PatchType.MERGE)

    async def remove_finalizer(self, resource: Resource, key: NamespacedName, uid: str, finalizer: str) -> None:
        """Remove a finalizer from the object with exactly this UID, retrying on conflict."""
        for attempt in range(_ATTEMPTS):
            obj = await self.read(resource, key)
            if obj is None or obj.metadata.uid != uid or not obj.has(finalizer):
                return
            try:
                patch = remove_finalizer_patch(obj, finalizer)
                await self.make_client(resource).patch(key.name, patch, key.namespace, type=PatchType.MERGE)
                return
            except errors.NotFound:
                return
            except errors.Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise


class AbsentOwners:
    """An LRU cache of absent owners. UIDs are never reused, so that an absent owner stays absent."""

    def __init__(self, maximum: int = 5000) -> None:
        self._maximum = maximum
        self._known: OrderedDict[tuple[str, str, NamespacedName, str], None] = OrderedDict()

    def add(self, resource: Resource, key: NamespacedName, uid: str) -> None:
        self._known[resource.group, resource.plural, key, uid] = None
        if len(self._known) > self._maximum:
            self._known.popitem(last=False)

    def has(self, resource: Resource, key: NamespacedName, uid: str) -> bool:
        identity = (resource.group, resource.plural, key, uid)
        if identity not in self._known:
            return False
        self._known.move_to_end(identity)
        return True
