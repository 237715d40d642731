"""The registry of stores: one per stored resource, opened on first use and shared by all API versions of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from sampan.api.feature_gates import FeatureGates
from sampan.api.resources.resource import GroupVersionKind, Resource, SelectableField
from sampan.api.schema import schemas
from sampan.api.scheme import Scheme, type_for
from sampan.apiserver.customresources.objects.stored_versions import ConvertingBackend
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.codec import ResourceCodec, bookmark_rest
from sampan.apiserver.registry.gated_fields import GatedFields
from sampan.apiserver.registry.store import IsStale, Store
from sampan.apiserver.registry.stored_object import StoredObjects
from sampan.host.clock import Clock
from sampan.host.linux.process_resources import MemoryTrimmer
from sampan.storage.backend import Backend
from sampan.storage.cacher import CachedField, CachedResource, Cacher, HistoryBudget, WatchBudget
from sampan.storage.cacher.item import ItemMaker

if TYPE_CHECKING:
    from sampan.storage.encryption import EncryptionRules


StartTask = Callable[[Any], asyncio.Task[None]]
"""A function that runs a cacher in the server's task group."""


class Registry:
    def __init__(
        self,
        *,
        scheme: Scheme,
        backend: Backend,
        clock: Clock,
        start_task: StartTask,
        make_behavior: Callable[[Resource], ResourceBehavior],
        event_ttl_s: float = 3600,
        encryption: EncryptionRules | None = None,
        feature_gates: FeatureGates | None = None,
    ) -> None:
        self.scheme, self.backend, self.clock = scheme, backend, clock
        self._start_task, self._make_behavior = start_task, make_behavior
        self._encryption = encryption
        self.feature_gates = feature_gates or FeatureGates()
        self._gated_fields = GatedFields(self.feature_gates)
        self._event_ttl_s = event_ttl_s
        self.memory_trimmer = MemoryTrimmer()
        self.watch_budget = WatchBudget(freed=self.memory_trimmer.record_freed)
        """The memory that the watchers of all resources may use together."""
        self._history_budget = HistoryBudget(freed=self.memory_trimmer.record_freed)
        self._stores: dict[str, Store] = {}
        self._cacher_tasks: dict[str, asyncio.Task[None]] = {}
        self._behaviors: dict[tuple[str, str, str], ResourceBehavior] = {}
        self._codecs: dict[GroupVersionKind, ResourceCodec] = {}
        self._codecs_of: dict[tuple[str, str, str], ResourceCodec] = {}

    def behavior(self, resource: Resource) -> ResourceBehavior:
        """Return the behavior of a resource: its strategy, columns and subresources."""
        key = _behavior_key(resource)
        behavior = self._behaviors.get(key)
        if behavior is None:
            behavior = self._behaviors[key] = self._make_behavior(resource)
        return behavior

    def default(self, resource: Resource, obj: Any) -> None:
        """Set the default values of an object in its storage version."""
        self.behavior(resource).strategy.default(obj)
        self._gated_fields.default(obj)

    def set_behavior(self, resource: Resource, behavior: ResourceBehavior) -> None:
        """Set the behavior of a resource that was registered at run time."""
        self._behaviors[_behavior_key(resource)] = behavior

    def open_store(self, resource: Resource) -> Store:
        """Return the store of a resource. The first call opens it: its cacher starts in the server's task group."""
        key = _store_key(resource)
        store = self._stores.get(key)
        if store is None:
            store = self._stores[key] = self._open(key, self._find_stored_resource(resource))
        return store

    def open_store_of(self, group: str, version: str, kind: str) -> Store:
        """Return the store of a built-in kind, opened like `open_store`. Raise ValueError if the kind is not served."""
        resource = self.scheme.find_by_kind(group, version, kind)
        if resource is None:
            raise ValueError(f"{kind} of {group}/{version} is not served")
        return self.open_store(resource)

    def count(self, resource: Resource) -> int:
        """Return the number of cached objects, 0 if the store is not open."""
        store = self._stores.get(_store_key(resource))
        return len(store.cacher) if store is not None else 0

    def stores(self) -> list[Store]:
        """Return the stores that are open."""
        return list(self._stores.values())

    def forget(self, resource: Resource) -> None:
        """Drop the store, the behavior and the codecs of a resource that is no longer served; its watches end."""
        key = _store_key(resource)
        if (store := self._stores.pop(key, None)) is not None:
            store.cacher.end_watches()
        if (task := self._cacher_tasks.pop(key, None)) is not None:
            task.cancel()
        self._behaviors.pop(_behavior_key(resource), None)
        self._codecs.pop(resource.gvk, None)
        self._codecs_of.pop((resource.group, resource.version, resource.kind), None)

    def codec_of(self, resource: Resource) -> ResourceCodec:
        """Return the codec for the resource's own version, which may differ from the stored version."""
        key = (resource.group, resource.version, resource.kind)
        codec = self._codecs_of.get(key)
        if codec is None:
            codec = self._codecs_of[key] = self.codec(resource.gvk, resource)
        return codec

    def codec(self, kind: GroupVersionKind, resource: Resource | None = None) -> ResourceCodec:
        codec = self._codecs.get(kind)
        if codec is None:
            codec = self._codecs[kind] = self._make_codec(kind, resource)
        return codec

    def _make_codec(self, kind: GroupVersionKind, resource: Resource | None) -> ResourceCodec:
        if resource is not None and resource.schema is not None:
            return ResourceCodec(kind=kind, type=None, schema=resource.schema)
        object_type = type_for(kind)
        if object_type is None:
            raise ValueError(f"{kind.kind} of {kind.api_version} has no type")
        return ResourceCodec(kind=kind, type=object_type, schema=schemas.schema_of(object_type))

    def _find_stored_resource(self, resource: Resource) -> Resource:
        """Return the resource whose name errors of the store show: of all resources that serve the same objects, the
        stored one."""
        stored = resource.storage
        if resource.is_custom or stored is None:
            return resource
        return self.scheme.find_by_kind(stored.group, stored.version, stored.kind) or resource

    def convert(self, value: dict[str, Any], resource: Resource) -> dict[str, Any]:
        """Return the value of an object in the version of a resource. Raise NoConversion if there is no conversion."""
        from sampan.api import conversion

        version = self.behavior(resource).stored_version
        if version is None:
            return conversion.convert(value, resource.gvk)
        return version.conversion.convert_now(value, resource.api_version)

    def _open(self, key: str, resource: Resource) -> Store:
        stored = resource.storage
        if stored is None:
            raise ValueError(f"{resource.qualified} is not stored")
        codec = self.codec(stored, resource)
        shape = _make_shape(resource, stored, self.scheme.equivalent_resources(resource), bookmark_rest(codec))
        convert = None if resource.is_custom else partial(_convert_stored_value, stored)
        strategy, default = self.behavior(resource).strategy, partial(self.default, resource)
        decode_value = _decode_custom_value if resource.is_custom else partial(_decode_builtin_value, codec, default)
        backend, is_stale = self._wrap_in_encryption(resource)
        converting = self._make_converting_backend(resource, backend)
        if converting is not None:
            backend, is_stale = converting, _any_of(is_stale, converting.is_stale)
        cacher = Cacher(
            backend=backend,
            shape=shape,
            decode=codec.decode_to_keep,
            decode_value=decode_value,
            convert_value=convert,
            history_budget=self._history_budget,
            watch_budget=self.watch_budget,
        )
        self._cacher_tasks[key] = self._start_task(cacher.run())
        items = ItemMaker(shape=shape, decode_value=decode_value, convert_value=convert)
        is_event = resource.storage_prefix == "/registry/events"
        return Store(
            resource=resource,
            strategy=strategy,
            backend=backend,
            cacher=cacher,
            stored_objects=StoredObjects(backend=backend, cacher=cacher, items=items, codec=codec),
            codec=codec,
            clock=self.clock,
            gated_fields=self._gated_fields,
            ttl_s=self._event_ttl_s if is_event else None,
            is_stale=is_stale,
            read_back=converting.read_back if converting is not None else None,
        )

    def _wrap_in_encryption(self, resource: Resource) -> tuple[Backend, IsStale | None]:
        """Return the backend for the resource, encrypting if configured, and the check for outdated encryption."""
        values = (
            self._encryption.find_transformer(resource.group, resource.plural) if self._encryption is not None else None
        )
        if values is None:
            return self.backend, None
        from sampan.storage.encryption import EncryptingBackend

        backend = EncryptingBackend(inner=self.backend, values=values)
        return backend, backend.is_stale

    def _make_converting_backend(self, resource: Resource, inner: Backend) -> ConvertingBackend | None:
        """Return the backend that shows a custom resource in its version."""
        version = self.behavior(resource).stored_version
        return ConvertingBackend(inner=inner, version=version) if version is not None else None


def _any_of(first: IsStale | None, second: IsStale) -> IsStale:
    if first is None:
        return second

    async def is_any_stale(key: str) -> bool:
        return await first(key) or await second(key)

    return is_any_stale


def _store_key(resource: Resource) -> str:
    """Return the key of a resource's store, which all versions share, except those of custom resources."""
    return f"{resource.storage_prefix}@{resource.version}" if resource.is_custom else resource.storage_prefix


def _behavior_key(resource: Resource) -> tuple[str, str, str]:
    """Return the key of a resource's behavior, which depends on the version only for custom resources."""
    return (resource.group, resource.version if resource.is_custom else "", resource.plural)


def _decode_custom_value(value: bytes) -> bytes:
    """Return a custom resource that kube-apiserver stored; it is always JSON."""
    return value.rstrip()


def _decode_builtin_value(codec: ResourceCodec, default: Callable[[Any], None], value: bytes) -> bytes:
    """Return an object that kube-apiserver stored as Sampan would have stored it.

    kube-apiserver applies conversions and defaults whenever it decodes an object. Some are never stored, because
    protobuf has no field for them or because they are newer than the object.
    """
    from sampan.api import conversion
    from sampan.api.codec import json, protobuf

    raw = json.encode(protobuf.decode(value)) if value.startswith(protobuf.PREFIX) else value
    if json.read_kind(raw)[0] != codec.kind.api_version:
        raw = json.encode(conversion.convert(json.read_any(raw), codec.kind))
    obj = codec.decode(raw)
    default(obj)
    return codec.encode(obj)


def _convert_stored_value(stored: GroupVersionKind, value: bytes) -> bytes:
    """Convert a value that an older server stored to the current storage version."""
    from sampan.api import conversion
    from sampan.api.codec import json

    return json.encode(conversion.convert(json.read_any(value), stored))


def _aliases(field: SelectableField, others: Iterable[SelectableField]) -> tuple[str, ...]:
    same = (other.label for other in others if (other.paths, other.default) == (field.paths, field.default))
    return tuple(sorted(set(same) - {field.label}))


_INDEXED = frozenset({"spec.nodeName"})


def _make_shape(
    resource: Resource, stored: GroupVersionKind, versions: Iterable[Resource], bookmark_rest: bytes
) -> CachedResource:
    """Return the properties of a resource that its watch cache needs. `versions` are the resources that serve the same
    objects; their field labels may differ."""
    others = [field for version in versions for field in version.selectable]
    return CachedResource(
        prefix=resource.storage_prefix + "/",
        kind=stored.kind,
        api_version=stored.api_version,
        plural=resource.plural,
        group=resource.group,
        list_kind=resource.list_kind,
        is_namespaced=resource.namespaced,
        fields=tuple(
            CachedField(field.label, field.paths, field.default, field.label in _INDEXED, _aliases(field, others))
            for field in resource.selectable
        ),
        is_custom=resource.is_custom,
        bookmark_rest=bookmark_rest,
    )
