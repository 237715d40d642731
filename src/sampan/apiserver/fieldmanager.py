"""Field management for served resources: `sampan.machinery.apply` applied to requests.

The write path calls `FieldOwnership`; writes to the scale subresource call `ScaleOwnership`. Which fields a path resets
is declared by its strategy (`sampan.apiserver.registry.behavior`). Merging and comparing do not belong here: they are
pure and are in `sampan.machinery.apply`. The counterpart is `k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sampan.api import conversion
from sampan.api.codec import json as json_codec
from sampan.api.resources.resource import Resource
from sampan.api.types.meta_v1 import ManagedFieldsEntry
from sampan.apiserver.request.bodies import media_type
from sampan.apiserver.request.call import Call
from sampan.apiserver.request.negotiation import JSON, YAML
from sampan.host.bounded_cache import BoundedCache
from sampan.machinery.apply import MissingVersion, SchemaMismatch
from sampan.machinery.apply.atoms import Atom, build_object_atom
from sampan.machinery.apply.field_manager import FieldManager
from sampan.machinery.apply.field_sets import FieldSetCache
from sampan.machinery.apply.managed import REPLICAS
from sampan.machinery.apply.sets import Path

if TYPE_CHECKING:
    from sampan.apiserver.registry.behavior import ResourceBehavior
    from sampan.apiserver.registry.codec import ResourceCodec
    from sampan.apiserver.registry.registry import Registry

from sampan.api.resources.resource import GroupVersionKind
from sampan.api.schema import schemas
from sampan.api.types.autoscaling_v1 import Scale
from sampan.machinery.apply import AllFieldsFilter
from sampan.machinery.apply.managed import SCALE_VERSION, derive_scale_managers, merge_scale_managers

_MAX_MANAGER_BYTES = 128


def manager_name(field_manager: str, user_agent: str) -> str:
    """Return the name of the field manager of a request: its fieldManager parameter, which has been validated, or else
    the name in its User-Agent header."""
    return field_manager or _client_names[user_agent]


def _parse_client_name(user_agent: str) -> str:
    """Return the printable characters before the first slash, truncated to the maximum length of a manager name in
    bytes."""
    name, size = "", 0
    for char in user_agent.partition("/")[0]:
        if not char.isprintable():
            continue
        size += len(char.encode())
        if size > _MAX_MANAGER_BYTES:
            break
        name += char
    return name


_client_names = BoundedCache(_parse_client_name, max_entries=256)


_FIELD = b"managedFields"


def is_reset_in_value(value: Any) -> bool:
    meta = value.get("metadata") if isinstance(value, dict) else None
    return isinstance(meta, dict) and meta.get("managedFields") == []


def is_reset_in_body(call: Call) -> bool:
    """Whether the body of a request resets the managed fields by an empty list. The body has been decoded before, so it
    is valid. A protobuf body never does: protobuf has no empty lists."""
    if _FIELD not in call.body:
        return False
    media = media_type(call)
    if media == JSON:
        return is_reset_in_value(json_codec.read_any(call.body))
    if media != YAML:
        return False
    from sampan.api.codec import yaml

    return is_reset_in_value(yaml.decode(call.body)[0])


class ResourceSchemas:
    """The versions of one kind in one group. Entries of a manager for another group's version are dropped."""

    def __init__(self, registry: Registry, resource: Resource) -> None:
        self._registry, self._group, self._kind = registry, resource.group, resource.kind
        self._atoms: dict[str, tuple[ResourceCodec, Atom]] = {}

    def atom(self, api_version: str) -> Atom:
        resource = self._resource(api_version)
        codec = self._registry.codec_of(resource)
        cached = self._atoms.get(api_version)
        if cached is None or cached[0] is not codec:  # the schema of a custom resource may change
            cached = self._atoms[api_version] = codec, build_object_atom(codec.schema, is_custom=resource.is_custom)
        return cached[1]

    def convert(self, value: Any, api_version: str) -> Any:
        if value["apiVersion"] == api_version:
            return value
        try:
            return self.convert_to(value, self._resource(api_version))
        except conversion.NoConversion as error:
            raise MissingVersion(api_version) from error

    def convert_to(self, value: Any, resource: Resource) -> Any:
        """Convert a value to the version of a resource. Raise NoConversion if there is no conversion."""
        return self.fill_fields(self._registry.convert(value, resource))

    def fill_fields(self, value: Any) -> Any:
        """Return a converted value with the fields that its type always has."""
        resource = self._resource(value["apiVersion"])
        codec = self._registry.codec_of(resource)
        if codec.type is None:
            return value
        try:
            return json_codec.to_value(codec.from_value(value)[0])
        except json_codec.DecodeError as error:
            raise SchemaMismatch(str(error)) from None

    def _resource(self, api_version: str) -> Resource:
        group, _, version = api_version.rpartition("/")
        resource = self._registry.scheme.find_by_kind(group, version, self._kind) if group == self._group else None
        if resource is None:
            raise MissingVersion(api_version)
        return resource


Value = dict[str, Any]


class FieldOwnership:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._managers: dict[tuple[str, str, str, str], tuple[ResourceBehavior, FieldManager]] = {}
        self._kinds: dict[tuple[str, str], tuple[ResourceSchemas, FieldSetCache]] = {}

    def record_create(self, resource: Resource, obj: Any, *, manager: str, now: str) -> None:
        """Set the managed fields of a new object, which is in the storage version."""
        sent = _take_managed_fields(obj)
        value = self._to_requested_value(resource, obj)
        obj.metadata.managedFields = self.get_manager(resource, "").create(value, sent, manager=manager, now=now)

    def record_update(
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
        """Set the managed fields of an updated object, which is in the storage version. `old` is the object before the
        update, `live` its value in the version of the path."""
        sent = _take_managed_fields(obj)
        obj.metadata.managedFields = self.get_manager(resource, subresource).update(
            self.complete(resource, live),
            self._to_requested_value(resource, obj),
            old.metadata.managedFields,
            sent,
            is_reset=is_reset,
            manager=manager,
            now=now,
        )

    def get_manager(self, resource: Resource, subresource: str) -> FieldManager:
        """Return the field manager of a resource and subresource."""
        key = (resource.group, resource.version, resource.kind, subresource)
        behavior, cached = self._registry.behavior(resource), self._managers.get(key)
        if cached is None or cached[0] is not behavior:  # the definition of a custom resource may change
            if cached is not None:
                self._kinds.pop((resource.group, resource.kind), None)
            cached = self._managers[key] = behavior, self._make_field_manager(resource, subresource)
        return cached[1]

    def replicas_paths(self, resource: Resource) -> dict[str, Path]:
        """Return the path of the replicas in each version of a scalable resource."""
        return self._registry.behavior(resource).replicas_paths or {resource.api_version: REPLICAS}

    def _make_field_manager(self, resource: Resource, subresource: str) -> FieldManager:
        forms = self._forms(resource)
        return FieldManager(
            kind=resource.gvk,
            subresource=subresource,
            forms=forms,
            ignored=self._registry.behavior(resource).reset_fields(resource, subresource),
            field_sets=self._kinds[resource.group, resource.kind][1],
            empty=self._empty(resource),
        )

    def _forms(self, resource: Resource) -> ResourceSchemas:
        kind = (resource.group, resource.kind)
        if kind not in self._kinds:
            forms = ResourceSchemas(self._registry, resource)
            self._kinds[kind] = forms, FieldSetCache(forms)
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
        return value if resource.is_storage_version else self._forms(resource).fill_fields(value)

    def _to_requested_value(self, resource: Resource, obj: Any) -> Value:
        """Return the value of an object without managed fields, in the version of the path."""
        value: Value = json_codec.to_value(obj) if not resource.is_custom else obj.to_value()
        return value if resource.is_storage_version else self._forms(resource).convert_to(value, resource)


def _take_managed_fields(obj: Any) -> list[ManagedFieldsEntry]:
    """Return the managed fields of an object and clear them."""
    entries: list[ManagedFieldsEntry] = obj.metadata.managedFields
    obj.metadata.managedFields = []
    return entries


def without_managers(value: Value) -> Value:
    meta = value.get("metadata")
    if not isinstance(meta, dict) or "managedFields" not in meta:
        return value
    return {**value, "metadata": {key: part for key, part in meta.items() if key != "managedFields"}}


SCALE_KIND = GroupVersionKind(group="autoscaling", version="v1", kind="Scale")

Entries = list[ManagedFieldsEntry]


class _OneForm:
    """The single version of Scale."""

    def __init__(self) -> None:
        self._atom = build_object_atom(schemas.schema_of(Scale), is_custom=False)

    def atom(self, api_version: str) -> Atom:
        if api_version != SCALE_VERSION:
            raise MissingVersion(api_version)
        return self._atom

    def convert(self, value: Any, api_version: str) -> Any:
        self.atom(api_version)
        return value


class ScaleOwnership:
    """The managed fields of the scale subresource, for all kinds."""

    def __init__(self, ownership: FieldOwnership) -> None:
        self._ownership = ownership
        forms = _OneForm()
        empty = json_codec.to_value(Scale(kind=SCALE_KIND.kind, apiVersion=SCALE_VERSION))
        self._managers = FieldManager(
            kind=SCALE_KIND,
            subresource="scale",
            forms=forms,
            ignored=AllFieldsFilter(),
            field_sets=FieldSetCache(forms),
            empty=empty,
        )

    def update(
        self, resource: Resource, remaining_entries: Entries, old: Scale, new: Scale, *, manager: str, now: str
    ) -> Entries:
        """Return the managed fields of the object after an update of its scale; `remaining_entries` are those
        before."""
        before, after = json_codec.to_value(old), json_codec.to_value(new)
        scale_entries = self.scale_entries(resource, remaining_entries)
        entries = self._managers.update(before, after, scale_entries, [], is_reset=False, manager=manager, now=now)
        return self._merge_entries(resource, remaining_entries, entries)

    def apply(
        self,
        resource: Resource,
        managed_entries: Entries,
        old: Scale,
        applied: Any,
        *,
        manager: str,
        force: bool,
        now: str,
    ) -> tuple[Any, Entries]:
        """Return the value of the scale after an apply, and the managed fields of the object."""
        live = json_codec.to_value(old)
        scale_entries = self.scale_entries(resource, managed_entries)
        value, entries = self._managers.apply(live, applied, scale_entries, manager=manager, force=force, now=now)
        return live if value is None else value, self._merge_entries(resource, managed_entries, entries)

    def scale_entries(self, resource: Resource, managed_entries: Entries) -> Entries:
        """Return the managed fields of a scale; `managed_entries` are those of its object."""
        parent = self._ownership.get_manager(resource, "").decode_entries(managed_entries)
        return self._managers.encode_entries(derive_scale_managers(parent, self._ownership.replicas_paths(resource)))

    def _merge_entries(self, resource: Resource, managed_entries: Entries, entries: Entries) -> Entries:
        main = self._ownership.get_manager(resource, "")
        scale = self._managers.decode_entries(entries)
        paths = self._ownership.replicas_paths(resource)
        return main.encode_entries(
            *merge_scale_managers(main.decode_entries(managed_entries), scale, resource.api_version, paths)
        )
