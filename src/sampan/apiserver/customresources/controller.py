"""The controller of CustomResourceDefinitions: it accepts names, serves the resources, and cleans up after a deletion.

A definition is served before its condition `Established` is written, so that a client that has seen the condition can
use the resource. When the spec changes, its resources are replaced and their watches end, as in kube-apiserver.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.api.types.apiextensions_v1 import (
    CustomResourceDefinitionCondition,
    CustomResourceDefinitionNames,
    CustomResourceDefinitionStatus,
)
from sampan.api.values import times
from sampan.apiserver.bootstrap import SYSTEM
from sampan.apiserver.customresources.definitions.definition import (
    GROUP,
    KIND,
    TERMINATING,
    VERSION,
    ResourceDefinition,
    decide_status,
    decode_definition,
    set_condition,
)
from sampan.apiserver.customresources.metrics import CustomResourceMetrics, RegenerationReason
from sampan.apiserver.customresources.objects.conversion_webhook import ReviewedConversion
from sampan.apiserver.customresources.objects.custom_schema import CustomSchema
from sampan.apiserver.customresources.objects.stored_versions import NoneConversion, ValueConversion
from sampan.apiserver.customresources.resources import CustomResource, declare_behavior, declare_resource
from sampan.apiserver.registry.kinds.customresourcedefinitions import CLEANUP_FINALIZER, ESTABLISHED
from sampan.apiserver.registry.store import Store
from sampan.apiserver.request.call import Call, Query
from sampan.apiserver.request.patches import MERGE_PATCH
from sampan.machinery import errors
from sampan.storage.backend import StorageError
from sampan.storage.cacher import CacheError, CacheItem, WatchQuery
from sampan.storage.cacher.follower import follow_changes

if TYPE_CHECKING:
    from sampan.apiserver.pipeline import Pipeline
    from sampan.apiserver.webhooks.client import WebhookClients

log = logging.getLogger(__name__)

_RETRY_S = 0.2
_INLINE_SCHEMA_BYTES = 64 << 10
"""Schemas above this size are compressed in a thread."""
_DELETE_BATCH = 64
"""How many objects of a deleted definition are deleted concurrently."""


class _ServedDefinition(NamedTuple):
    """The resources that are served for a CustomResourceDefinition."""

    identity: tuple[Any, ...]
    """A value that differs from that of the stored definition if the resources must be replaced."""
    is_terminating: bool
    resources: list[CustomResource]


class DefinitionController:
    def __init__(self, *, pipeline: Pipeline, webhooks: WebhookClients | None, metrics: CustomResourceMetrics) -> None:
        """`webhooks` calls conversion webhooks; None if they cannot be called."""
        self._webhooks, self._metrics = webhooks, metrics
        self._pipeline, self._registry = pipeline, pipeline.endpoints.registry
        self._scheme = self._registry.scheme
        self._names: dict[str, tuple[str, CustomResourceDefinitionNames]] = {}
        """Group and accepted names of each definition."""
        self._served: dict[str, _ServedDefinition] = {}
        self._revisions: dict[str, int] = {}
        """The revision at which a definition was last synchronized without an error."""
        self._finalizations: dict[str, asyncio.Task[None]] = {}
        self._first_sync = asyncio.Event()

    async def wait_synced(self) -> None:
        """Wait until all definitions that were stored at the start are served."""
        await self._first_sync.wait()

    async def run(self) -> None:
        """Follow the definitions until cancelled."""
        store = self._registry.open_store_of(GROUP, VERSION, KIND)
        async with asyncio.TaskGroup() as group:
            await follow_changes(store.cacher, "custom resource definitions", lambda: self._sync_all(store, group))

    async def _sync_all(self, store: Store, group: asyncio.TaskGroup) -> None:
        """Synchronize every definition that has changed."""
        items = {item.name: item for item in store.cacher.peek_all()}
        for name in [name for name in self._names if name not in items]:
            self._forget(name)
        for name, item in items.items():
            if self._revisions.get(name) == item.revision:
                continue
            try:
                await self._sync(item, group)
            except (errors.Conflict, errors.NotFound) as error:
                # the watch event of that change triggers the retry
                log.debug("custom resource definition %s changed while it was synchronized: %s", name, error)
                continue
            except JSON_ERRORS as error:
                log.error("custom resource definition %s is not served, because it cannot be decoded: %s", name, error)
            self._revisions[name] = item.revision
        self._first_sync.set()

    async def _sync(self, item: CacheItem, group: asyncio.TaskGroup) -> None:
        definition = decode_definition(item.raw)
        name, spec = definition.name, definition.spec
        self._names[name] = spec.group, definition.status.acceptedNames
        if definition.is_terminating:
            await self._serve(definition)
            if CLEANUP_FINALIZER in definition.metadata.finalizers and name not in self._finalizations:
                self._finalizations[name] = group.create_task(self._finalize(name))
            return
        now = times.format_time(self._registry.clock.now())
        status = decide_status(definition, self._other_names(name, spec.group), now)
        is_changed = status != definition.status
        definition.status = status
        self._names[name] = spec.group, status.acceptedNames
        await self._serve(definition)
        if is_changed:
            await self._write_status(definition, item.revision)

    def _other_names(self, name: str, group: str) -> Iterator[CustomResourceDefinitionNames]:
        for other, (other_group, names) in self._names.items():
            if other != name and other_group == group:
                yield names

    # -- serving -----------------------------------------------------------------------------------------------------

    async def _serve(self, definition: ResourceDefinition) -> None:
        """Serve the resources of an established definition; stop serving those of any other."""
        name, served = definition.name, self._served.get(definition.name)
        if not definition.has(ESTABLISHED):
            self._withdraw(name)
            return
        names = definition.status.acceptedNames
        identity = (definition.metadata.uid, definition.metadata.generation, msgspec.json.encode(names))
        if served is not None and served.identity == identity:
            if served.is_terminating != definition.is_terminating:
                self._served[name] = self._replace_behavior(definition, served)
            return
        schemas = await self._schemas(definition, served)
        self._withdraw(name)
        conversion, resources = self._conversion(definition), []
        for version in definition.spec.versions:
            if not version.served:
                continue
            custom = declare_resource(definition, version, schemas, conversion)
            if self._is_builtin(custom):
                log.warning("custom resource definition %s is not served: the resource is built in", name)
                continue
            resources.append(custom)
            self._use(custom)
            self._scheme.add(custom.resource)
        self._served[name] = _ServedDefinition(identity, definition.is_terminating, resources)
        for custom in resources:
            self._record_regeneration(name, custom, "add" if served is None else "update")

    async def _schemas(
        self, definition: ResourceDefinition, served: _ServedDefinition | None
    ) -> dict[str, CustomSchema]:
        """Return the schemas of all versions: objects may be stored in one that is not served. A schema that has not
        changed remains the same object, so that it is not compiled again. Large schemas are compressed in a thread."""
        present = {part.resource.version: part.resource.schema for part in served.resources} if served else {}
        schemas: dict[str, CustomSchema] = {}
        for version in definition.spec.versions:
            source, previous = version.schema_json, present.get(version.name)
            is_large = len(source) > _INLINE_SCHEMA_BYTES
            schema = await asyncio.to_thread(CustomSchema, source) if is_large else CustomSchema(source)
            if isinstance(previous, CustomSchema) and previous.digest == schema.digest:
                schema = previous
            schemas[version.name] = schema
        return schemas

    def _record_regeneration(self, name: str, custom: CustomResource, reason: RegenerationReason) -> None:
        self._metrics.record_regeneration(name, custom.resource.group, custom.resource.version, reason)

    def _is_builtin(self, custom: CustomResource) -> bool:
        resource = custom.resource
        present = self._scheme.resource(resource.group, resource.version, resource.plural)
        return present is not None and not present.is_custom

    def _replace_behavior(self, definition: ResourceDefinition, served: _ServedDefinition) -> _ServedDefinition:
        """Declare the behavior of the resources again after their definition was marked as deleted: no objects can be
        created any more. Return the served definition."""
        versions = {version.name: version for version in definition.spec.versions}
        resources = []
        for resource, behavior, _ in served.resources:
            assert behavior.stored_version is not None
            new = declare_behavior(definition, versions[resource.version], resource, behavior.stored_version)
            self._use(new)
            resources.append(new)
        return _ServedDefinition(served.identity, definition.is_terminating, resources)

    def _use(self, custom: CustomResource) -> None:
        self._registry.set_behavior(custom.resource, custom.behavior)
        self._pipeline.handlers.add(custom.resource, custom.handlers)

    def _conversion(self, definition: ResourceDefinition) -> ValueConversion:
        declared, clients = definition.spec.conversion, self._webhooks
        if declared is None or declared.strategy != "Webhook" or declared.webhook is None or clients is None:
            return NoneConversion()
        return ReviewedConversion(
            definition=definition.name, webhook=declared.webhook, clients=clients, metrics=self._metrics
        )

    def _withdraw(self, name: str) -> None:
        served = self._served.pop(name, None)
        for custom in served.resources if served is not None else ():
            self._scheme.remove(custom.resource)
            self._registry.forget(custom.resource)
            self._pipeline.handlers.remove(custom.resource)

    def _forget(self, name: str) -> None:
        """Stop serving a definition that was removed. Its names are free, so the other definitions of its group are
        synchronized again."""
        if (served := self._served.get(name)) is not None:
            for custom in served.resources:
                self._record_regeneration(name, custom, "remove")
        self._withdraw(name)
        self._revisions.pop(name, None)
        group, _ = self._names.pop(name)
        for other, (other_group, _) in self._names.items():
            if other_group == group:
                self._revisions.pop(other, None)
        if (task := self._finalizations.pop(name, None)) is not None:
            task.cancel()

    # -- deletion ----------------------------------------------------------------------------------------------------

    async def _finalize(self, name: str) -> None:
        """Delete the objects of a definition that is marked as deleted, then remove its finalizer."""
        while True:
            try:
                await self._finalize_once(name)
                return
            except errors.NotFound:
                return
            except (errors.ApiError, CacheError, StorageError) as error:
                log.warning("cannot delete the objects of custom resource definition %s, retrying: %s", name, error)
                await asyncio.sleep(_RETRY_S)

    async def _finalize_once(self, name: str) -> None:
        served = self._served.get(name)
        if served is None or not served.resources:
            message = "resource was never established"
            await self._set_terminating(name, "False", "NeverEstablished", message, removes_finalizer=True)
            return
        await self._set_terminating(
            name, "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"
        )
        store = self._registry.open_store(served.resources[0].resource)
        await store.cacher.wait_filled()
        async with store.cacher.watch(WatchQuery()) as watcher:
            await self._delete_objects(store)
            while len(store.cacher):
                await anext(watcher)
        message = "removed all instances"
        await self._set_terminating(name, "False", "InstanceDeletionCompleted", message, removes_finalizer=True)

    async def _delete_objects(self, store: Store) -> None:
        items = [
            item for item in store.cacher.peek_all() if store.cacher.object(item).metadata.deletionTimestamp is None
        ]
        for start in range(0, len(items), _DELETE_BATCH):
            async with asyncio.TaskGroup() as group:
                for item in items[start : start + _DELETE_BATCH]:
                    group.create_task(self._delete_object(store, item))

    async def _delete_object(self, store: Store, item: CacheItem) -> None:
        path = store.resource.path(item.name, item.namespace)
        with suppress(errors.NotFound):
            await self._pipeline.serve_as(_call("DELETE", path, {}, ""))

    # -- writes ------------------------------------------------------------------------------------------------------

    async def _write_status(self, definition: ResourceDefinition, revision: int) -> None:
        status: dict[str, Any] = msgspec.to_builtins(
            CustomResourceDefinitionStatus(conditions=definition.status.conditions)
        )
        names = msgspec.to_builtins(definition.status.acceptedNames)
        status = {
            "conditions": status["conditions"],
            "acceptedNames": {field: names.get(field) for field in CustomResourceDefinitionNames.__struct_fields__},
        }
        body = {"metadata": {"resourceVersion": str(revision)}, "status": status}
        await self._pipeline.serve_as(_call("PATCH", f"{_path(definition.name)}/status", body, MERGE_PATCH))

    async def _set_terminating(
        self, name: str, status: str, reason: str, message: str, *, removes_finalizer: bool = False
    ) -> None:
        """Write the condition of a definition that is being deleted; retry if it was changed in the meantime."""
        store = self._registry.open_store_of(GROUP, VERSION, KIND)
        while True:
            item = await store.get("", name)
            definition = decode_definition(item.raw)
            conditions: list[CustomResourceDefinitionCondition] = list(definition.status.conditions or ())
            set_condition(
                conditions, TERMINATING, status, reason, message, times.format_time(self._registry.clock.now())
            )
            body: dict[str, Any] = {"metadata": {"resourceVersion": str(item.revision)}}
            if removes_finalizer:
                finalizers = [
                    finalizer for finalizer in definition.metadata.finalizers if finalizer != CLEANUP_FINALIZER
                ]
                body["metadata"]["finalizers"] = finalizers
            body["status"] = {"conditions": msgspec.to_builtins(conditions)}
            with suppress(errors.Conflict):
                await self._pipeline.serve_as(_call("PATCH", f"{_path(name)}/status", body, MERGE_PATCH))
                return


def _path(name: str) -> str:
    return f"/apis/{GROUP}/{VERSION}/customresourcedefinitions/{name}"


def _call(method: str, path: str, body: dict[str, Any], content_type: str) -> Call:
    headers = {"User-Agent": "kube-apiserver", **({"Content-Type": content_type} if content_type else {})}
    encoded = msgspec.json.encode(body) if body else b""
    return Call(method=method, path=path, query=Query(""), headers=headers, body=encoded, user=SYSTEM)
