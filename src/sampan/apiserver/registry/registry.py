"""Which store keeps a resource: made on first use, one for all versions of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Any

from sampan.api import schemas
from sampan.api.resource import GroupVersionKind, Resource
from sampan.api.scheme import Scheme, type_for
from sampan.apiserver.registry.codec import ResourceCodec
from sampan.apiserver.registry.kinds import MODULES
from sampan.apiserver.registry.served import Served
from sampan.apiserver.registry.store import Store
from sampan.machinery.clock import Clock
from sampan.storage.backend import Backend
from sampan.storage.cacher import Cacher, Field, Shape, SharedRevision

StartTask = Callable[[Any], asyncio.Task[None]]
"""Runs a cacher in the server's task group."""


class Registry:
    def __init__(
        self, *, scheme: Scheme, backend: Backend, clock: Clock, start_task: StartTask, event_ttl_s: float = 3600
    ) -> None:
        self.scheme, self.backend, self.clock = scheme, backend, clock
        self._start_task = start_task
        self._event_ttl_s = event_ttl_s
        self._current_revision = SharedRevision(backend.current_revision)
        self._stores: dict[str, Store] = {}
        self._served: dict[tuple[str, str], Served] = {}
        self._codecs: dict[GroupVersionKind, ResourceCodec] = {}

    def served(self, resource: Resource) -> Served:
        """How a resource behaves: its strategy, columns and subresources."""
        key = (resource.group, resource.plural)
        found = self._served.get(key)
        if found is None:
            module = MODULES.get(key)
            found = import_module(f"sampan.apiserver.registry.kinds.{module}").SERVED if module else Served()
            self._served[key] = found
        return found

    def serve(self, resource: Resource, served: Served) -> None:
        """Give a resource that was registered at run time its behaviour."""
        self._served[resource.group, resource.plural] = served

    def store(self, resource: Resource) -> Store:
        found = self._stores.get(resource.storage_prefix)
        if found is None:
            found = self._stores[resource.storage_prefix] = self._open(resource)
        return found

    def stores(self) -> list[Store]:
        """Those that are open."""
        return list(self._stores.values())

    def forget(self, resource: Resource) -> None:
        """A resource is no longer served."""
        self._stores.pop(resource.storage_prefix, None)
        self._served.pop((resource.group, resource.plural), None)

    def codec(self, kind: GroupVersionKind, resource: Resource | None = None) -> ResourceCodec:
        found = self._codecs.get(kind)
        if found is None:
            found = self._codecs[kind] = self._make_codec(kind, resource)
        return found

    def _make_codec(self, kind: GroupVersionKind, resource: Resource | None) -> ResourceCodec:
        if resource is not None and resource.schema is not None:
            return ResourceCodec(kind=kind, type=None, schema=resource.schema)
        found = type_for(kind)
        if found is None:
            raise ValueError(f"{kind.kind} of {kind.api_version} has no type")
        return ResourceCodec(kind=kind, type=found, schema=schemas.of(found))

    def _open(self, resource: Resource) -> Store:
        stored = resource.storage
        if stored is None:
            raise ValueError(f"{resource.qualified} is not stored")
        codec = self.codec(stored, resource)
        cacher = Cacher(
            backend=self.backend,
            shape=_shape(resource, stored),
            decode=codec.decode,
            decode_value=_json_of_protobuf,
            current_revision=self._current_revision,
        )
        self._start_task(cacher.run())
        is_event = resource.storage_prefix == "/registry/events"
        return Store(
            resource=resource,
            strategy=self.served(resource).strategy,
            backend=self.backend,
            cacher=cacher,
            codec=codec,
            clock=self.clock,
            ttl_s=self._event_ttl_s if is_event else None,
        )


def _json_of_protobuf(value: bytes) -> bytes:
    from sampan.api.codec import json, protobuf

    return json.encode(protobuf.decode(value))


_INDEXED = frozenset({"spec.nodeName"})


def _shape(resource: Resource, stored: GroupVersionKind) -> Shape:
    return Shape(
        prefix=resource.storage_prefix + "/",
        kind=stored.kind,
        api_version=stored.api_version,
        plural=resource.plural,
        group=resource.group,
        is_namespaced=resource.namespaced,
        fields=tuple(
            Field(field.label, field.paths, field.default, field.label in _INDEXED) for field in resource.selectable
        ),
        is_custom=resource.is_custom,
    )
