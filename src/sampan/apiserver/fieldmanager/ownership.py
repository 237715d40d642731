"""The managed fields of objects that are created, updated or applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sampan.api.codec import json as json_codec
from sampan.api.resource import Resource
from sampan.api.types.meta_v1 import ManagedFieldsEntry
from sampan.apiserver.fieldmanager import reset_fields
from sampan.apiserver.fieldmanager.resource_forms import ResourceForms
from sampan.machinery.apply.field_manager import FieldManager
from sampan.machinery.apply.known_sets import KnownSets

if TYPE_CHECKING:
    from sampan.apiserver.registry.registry import Registry

Value = dict[str, Any]


class Ownership:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._managers: dict[tuple[str, str, str, str], FieldManager] = {}
        self._kinds: dict[tuple[str, str], tuple[ResourceForms, KnownSets]] = {}

    def created(self, resource: Resource, obj: Any, *, manager: str, now: str) -> None:
        """Set the managed fields of a new object, which is in the storage version."""
        sent = _taken(obj)
        value = self._shown(resource, obj)
        obj.metadata.managedFields = self.of(resource, "").create(value, sent, manager=manager, now=now)

    def changed(
        self,
        resource: Resource,
        subresource: str,
        obj: Any,
        old: Any,
        live: Value,
        *,
        is_reset: bool,
        manager: str,
        now: str,
    ) -> None:
        """Set the managed fields of an updated object, which is in the storage version. `old` is the object before,
        `live` its value in the version of the path."""
        sent = _taken(obj)
        obj.metadata.managedFields = self.of(resource, subresource).update(
            self.complete(resource, live),
            self._shown(resource, obj),
            old.metadata.managedFields,
            sent,
            is_reset=is_reset,
            manager=manager,
            now=now,
        )

    def of(self, resource: Resource, subresource: str) -> FieldManager:
        """Return the field manager of a resource and subresource."""
        key = (resource.group, resource.version, resource.kind, subresource)
        manager = self._managers.get(key)
        if manager is None:
            manager = self._managers[key] = self._made(resource, subresource)
        return manager

    def _made(self, resource: Resource, subresource: str) -> FieldManager:
        forms = self._forms(resource)
        return FieldManager(
            kind=resource.gvk,
            subresource=subresource,
            forms=forms,
            ignored=reset_fields.of(resource, subresource),
            known=self._kinds[resource.group, resource.kind][1],
            empty=self._empty(resource),
        )

    def _forms(self, resource: Resource) -> ResourceForms:
        kind = (resource.group, resource.kind)
        if kind not in self._kinds:
            forms = ResourceForms(self._registry, resource)
            self._kinds[kind] = forms, KnownSets(forms)
        return self._kinds[kind][0]

    def _empty(self, resource: Resource) -> Value:
        """Return the value from which a new object starts: the fields that its type always has."""
        codec = self._registry.codec_of(resource)
        if codec.type is None:
            return {"apiVersion": resource.api_version, "kind": resource.kind}
        blank = codec.type()
        blank.kind, blank.apiVersion = resource.kind, resource.api_version
        value: Value = json_codec.to_value(blank)
        return value

    def complete(self, resource: Resource, live: Value) -> Value:
        """Return the value of a stored object in the version of the path, without managed fields."""
        value = without_managers(live)
        return value if _is_stored(resource) else self._forms(resource).completed(value)

    def _shown(self, resource: Resource, obj: Any) -> Value:
        """Return the value of an object without managed fields, in the version of the path."""
        value: Value = json_codec.to_value(obj) if not resource.is_custom else obj.to_value()
        return value if _is_stored(resource) else self._forms(resource).shown(value, resource.gvk)


def _is_stored(resource: Resource) -> bool:
    stored = resource.storage
    return stored is None or (stored.version == resource.version and stored.group == resource.group)


def _taken(obj: Any) -> list[ManagedFieldsEntry]:
    """Return the managed fields of an object and clear them."""
    entries: list[ManagedFieldsEntry] = obj.metadata.managedFields
    obj.metadata.managedFields = []
    return entries


def without_managers(value: Value) -> Value:
    meta = value.get("metadata")
    if not isinstance(meta, dict) or "managedFields" not in meta:
        return value
    return {**value, "metadata": {key: part for key, part in meta.items() if key != "managedFields"}}
