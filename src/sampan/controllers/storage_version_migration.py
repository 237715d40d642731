"""storage-version-migrator-controller, which rewrites all objects of a resource in its current storage version, and
then removes the other versions from `status.storedVersions` of its CustomResourceDefinition.

It runs only with the feature gate StorageVersionMigrator, and where the API server serves StorageVersionMigrations.
The counterpart is `pkg/controller/storageversionmigrator`.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from sampan.api.go_compat import gotext
from sampan.api.resources.resource import GroupVersionKind, Resource
from sampan.api.semantics.conditions import find_condition, is_true, with_condition, without_condition
from sampan.api.types import storagemigration_v1, storagemigration_v1beta1
from sampan.api.types.apiextensions_v1 import CustomResourceDefinition, CustomResourceDefinitionCondition
from sampan.api.types.meta_v1 import Condition, GroupResource
from sampan.api.values import times
from sampan.controllers.descriptor import ControllerContext
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, PatchType, WriteParameters, resource_of
from sampan.machinery.client.discovery import Discovery
from sampan.machinery.control_loop.controller import RetryLater, Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory

log = logging.getLogger(__name__)

StorageVersionMigration = storagemigration_v1.StorageVersionMigration | storagemigration_v1beta1.StorageVersionMigration

NAME = "storage-version-migrator-controller"
RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"
STORAGE_MIGRATING = "StorageMigrating"
"""The condition of a CustomResourceDefinition whose objects are migrated."""
_REASONS = {
    RUNNING: "MigrationRunning",
    SUCCEEDED: "StorageVersionMigrationSucceeded",
    FAILED: "StorageVersionMigrationFailed",
}
_COMPLETED = "Migration completed"
_VERBS = ("update", "patch", "list")
"""The verbs that a resource needs to be migrated."""
_DISCOVERY_S = 60.0
"""The age in seconds up to which a migration waits for its resource to be served."""
_RETRIABLE = (
    errors.ServerTimeout,
    errors.TooManyRequests,
    errors.ServiceUnavailable,
    errors.InternalError,
    errors.Timeout,
    errors.Expired,
    ConnectionFailed,
)


class MigratedObject(NamedTuple):
    name: str
    namespace: str
    version: str
    """The resource version that the object had when it was listed."""


@dataclass(slots=True)
class MigrationProgress:
    total: int
    remaining: int
    """The number of objects that may still be stored in an old version."""

    @property
    def message(self) -> str:
        if not self.total:
            return "The migration is running"
        if self.remaining:
            return f"The migration is running, {self.remaining}/{self.total} objects not yet migrated"
        return f"The migration is running, {self.total} objects verified migrated"


def is_finished(migration: StorageVersionMigration) -> bool:
    return any(is_true(migration.status.conditions, name) for name in (SUCCEEDED, FAILED))


def is_next(migration: StorageVersionMigration, all_migrations: Iterable[StorageVersionMigration]) -> bool:
    """Whether a migration may start: no other one of its resource is running, and it is the oldest that waits."""
    resource = migration.spec.resource
    others = [other for other in all_migrations if other.spec.resource == resource and not is_finished(other)]
    if any(is_true(other.status.conditions, RUNNING) for other in others):
        return False
    first = min(others, key=lambda other: (other.metadata.creationTimestamp or "", other.metadata.name), default=None)
    return first is not None and first.metadata.name == migration.metadata.name


class StorageVersionMigratorController:
    name = NAME

    def __init__(
        self, *, client: Client, informers: InformerFactory, clock: Clock, kind: type[StorageVersionMigration]
    ) -> None:
        self._client, self._clock = client, clock
        self._migrations, self._definitions = (
            client.for_kind(kind),
            client.for_kind(CustomResourceDefinition),
        )
        self._known = informers.for_kind(kind).lister
        self._discovery = Discovery(client)
        self.watches = (Watch(resource_of(kind), self._affected_migration_keys),)

    def _affected_migration_keys(self, changed: StorageVersionMigration) -> Iterable[Hashable]:
        """Return the changed migration, and the migrations of the same resource that wait for it."""
        resource = changed.spec.resource
        waiting = {other.metadata.name for other in self._known.list() if other.spec.resource == resource}
        return waiting | {changed.metadata.name}

    async def reconcile(self, key: str) -> None:
        migration = self._known.get(key)
        if migration is None:
            return
        is_running = is_true(migration.status.conditions, RUNNING)
        if is_finished(migration):
            if is_running:
                await self._clean_up(migration)
        elif is_running:
            await self._migrate(copy_of(migration))
        elif is_next(migration, self._known.list()):
            await self._start(migration)

    # -- steps -------------------------------------------------------------------------------------------------------

    async def _start(self, migration: StorageVersionMigration) -> None:
        """Record that the migration is running, and at which resource version it has started."""
        changed = copy_of(migration)
        await self._mark_definition(migration)
        resource = await self._find_served_resource(migration.spec.resource)
        if resource is not None and set(_VERBS) <= set(resource.verbs):
            page = await self._client.metadata(resource).list(limit=1)
            changed.status.resourceVersion = page.resource_version
        self._set_condition(changed, RUNNING, "The migration is running")
        await self._update(changed)

    async def _migrate(self, migration: StorageVersionMigration) -> None:
        """Rewrite the objects, and write the outcome to the status. `migration` is changed in place."""
        resource = await self._find_served_resource(migration.spec.resource)
        if resource is None:
            created = migration.metadata.creationTimestamp
            if created and self._clock.now() < times.parse_time(created) + _DISCOVERY_S:
                raise RetryLater("the resource is not served yet")
            await self._fail(migration, "resource does not exist in discovery")
            return
        if not set(_VERBS) <= set(resource.verbs):
            name = gotext.quote(f"{resource.group}/{resource.version}, Resource={resource.plural}")
            await self._fail(migration, f"resource {name} does not support discovery operations: [{' '.join(_VERBS)}]")
            return
        if not migration.status.resourceVersion:
            page = await self._client.metadata(resource).list(limit=1)
            migration.status.resourceVersion = page.resource_version
            await self._update(migration)
            return
        await self._require_storage_version(resource)
        await self._rewrite_all(migration, resource)

    async def _rewrite_all(self, migration: StorageVersionMigration, resource: Resource) -> None:
        progress = MigrationProgress(total=0, remaining=0)
        try:
            candidates, progress.total = await self._list_candidates(resource, int(migration.status.resourceVersion))
            progress.remaining = len(candidates)
            for obj in candidates:
                await self._rewrite(resource, obj)
                progress.remaining -= 1
        except _RETRIABLE as error:
            text = f"{progress.message}; transient error: {error}"
            if self._set_condition(migration, RUNNING, text):
                await self._update(migration)
            raise RetryLater(f"migration {migration.metadata.name} starts again: {error}") from error
        except errors.ApiError as error:
            log.warning("storage version migration %s has failed: %s", migration.metadata.name, error)
            self._set_condition(migration, RUNNING, progress.message)
            count = f"{progress.remaining}/{progress.total} not yet migrated"
            await self._fail(migration, f"{count}. migration encountered unhandled error: {error}")
            return
        self._set_condition(migration, RUNNING, progress.message)
        self._set_condition(migration, SUCCEEDED, _COMPLETED)
        await self._update(migration)

    async def _list_candidates(self, resource: Resource, version: int) -> tuple[list[MigratedObject], int]:
        """Return the objects that were not written since the migration started, and the number of all objects."""
        candidates, total = [], 0
        async for page in self._client.metadata(resource).pages():
            total += len(page.items)
            for obj in page.items:
                meta = obj.metadata
                if int(meta.resourceVersion) <= version:
                    candidates.append(MigratedObject(meta.name, meta.namespace, meta.resourceVersion))
        return candidates, total

    async def _require_storage_version(self, resource: Resource) -> None:
        """Raise RetryLater if the API server does not store a custom resource in the version that its definition names.

        An object that is rewritten before that would stay in the old version.
        """
        definition = await self._definition(GroupResource(group=resource.group, resource=resource.plural))
        if definition is None:
            return
        version = next((version.name for version in definition.spec.versions or () if version.storage), "")
        storage = GroupVersionKind(group=resource.group, version=version, kind=resource.kind)
        expected = replace(resource, storage=storage).storage_version_hash
        try:
            actual = await self._discovery.storage_version_hash(resource)
        except errors.NotFound:
            actual = ""
        if actual != expected:
            raise RetryLater(f"{resource.qualified} is not stored in version {version} yet")

    async def _rewrite(self, resource: Resource, obj: MigratedObject) -> None:
        """Send a patch that changes nothing, which makes the API server store the object again if it is stored in
        another version. With the resource version, an object that was changed, or deleted and created again, in the
        meantime is a conflict: it needs no migration."""
        metadata = {"resourceVersion": obj.version}
        value = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        try:
            await self._client.metadata(resource).patch(
                obj.name, value, obj.namespace, type=PatchType.MERGE, options=_OPTIONS
            )
        except (errors.Conflict, errors.NotFound) as error:
            log.debug("%s %s/%s needs no migration: %s", resource.plural, obj.namespace, obj.name, error)

    async def _clean_up(self, migration: StorageVersionMigration) -> None:
        """Update the definition of a migrated custom resource, then set the condition Running to False."""
        await self._release_definition(migration)
        changed = copy_of(migration)
        condition = Condition(
            type=RUNNING,
            status="False",
            observedGeneration=migration.metadata.generation,
            lastTransitionTime=self._format_now(),
            reason="MigrationCompleted",
            message=_COMPLETED,
        )
        changed.status.conditions = with_condition(migration.status.conditions, condition)
        await self._update(changed)

    # -- definitions -------------------------------------------------------------------------------------------------

    async def _mark_definition(self, migration: StorageVersionMigration) -> None:
        definition = await self._definition(migration.spec.resource)
        if definition is not None:
            text = f"Migration {migration.metadata.name} is running"
            await self._write_definition(definition, "True", "MigrationRunning", text)

    async def _release_definition(self, migration: StorageVersionMigration) -> None:
        """Write the result of a migration to the definition. The stored versions are reduced to the storage version if
        the definition has not changed since the start."""
        definition = await self._definition(migration.spec.resource)
        if definition is None:
            return
        if not is_true(migration.status.conditions, SUCCEEDED):
            await self._write_definition(definition, "False", "MigrationFailed", "The migration has failed")
            return
        marked = find_condition(definition.status.conditions or (), STORAGE_MIGRATING)
        if marked is None or marked.observedGeneration != definition.metadata.generation:
            text = "The migration has succeeded but the stored versions have not been updated due to a generation"
            await self._write_definition(definition, "False", "MigrationSucceeded", f"{text} mismatch")
            return
        text = "The migration has succeeded and the stored versions have been updated"
        stored = [version.name for version in definition.spec.versions or () if version.storage]
        await self._write_definition(definition, "False", "MigrationSucceeded", text, stored_versions=stored)

    async def _definition(self, resource: GroupResource) -> CustomResourceDefinition | None:
        try:
            return await self._definitions.get(f"{resource.resource}.{resource.group}")
        except errors.NotFound:
            return None

    async def _write_definition(
        self,
        definition: CustomResourceDefinition,
        status: str,
        reason: str,
        message: str,
        *,
        stored_versions: Sequence[str] = (),
    ) -> None:
        """Write the condition of a definition. A conflict is raised, and the migration is reconciled again."""
        before = find_condition(definition.status.conditions or (), STORAGE_MIGRATING)
        is_unchanged = before is not None and before.status == status
        condition = CustomResourceDefinitionCondition(
            type=STORAGE_MIGRATING,
            status=status,
            lastTransitionTime=before.lastTransitionTime if before is not None and is_unchanged else self._format_now(),
            reason=reason,
            message=message,
            observedGeneration=definition.metadata.generation,
        )
        others = without_condition(definition.status.conditions or (), STORAGE_MIGRATING)
        changes: dict[str, Any] = {"conditions": msgspec.to_builtins([*others, condition])}
        if stored_versions:
            changes["storedVersions"] = list(stored_versions)
        patch = {"metadata": {"resourceVersion": definition.metadata.resourceVersion}, "status": changes}
        await self._definitions.patch(
            definition.metadata.name, patch, type=PatchType.MERGE, subresource="status", options=_OPTIONS
        )

    # -- status ------------------------------------------------------------------------------------------------------

    async def _fail(self, migration: StorageVersionMigration, message: str) -> None:
        self._set_condition(migration, FAILED, message)
        await self._update(migration)

    def _set_condition(self, migration: StorageVersionMigration, state: str, message: str) -> bool:
        """Set the condition of a state to True. Return whether that changed anything."""
        before = migration.status.conditions
        condition = Condition(
            type=state, status="True", lastTransitionTime=self._format_now(), reason=_REASONS[state], message=message
        )
        migration.status.conditions = with_condition(before, condition)
        return migration.status.conditions != before

    async def _update(self, migration: StorageVersionMigration) -> None:
        try:
            await self._migrations.update_status(migration, options=_OPTIONS)
        except errors.NotFound:
            return

    async def _find_served_resource(self, group_resource: GroupResource) -> Resource | None:
        """Return the resource in its preferred version, None if it is not served."""
        served, failure = await self._discovery.discover_preferred()
        for resource in served:
            if (resource.group, resource.plural) == (group_resource.group, group_resource.resource):
                return resource
        if failure:
            raise RetryLater(failure)
        return None

    def _format_now(self) -> str:
        return times.format_time(self._clock.now())


_OPTIONS = WriteParameters(field_manager=NAME)


def make(context: ControllerContext) -> StorageVersionMigratorController | None:
    if not context.config.serves_storage_migration:
        return None
    version = storagemigration_v1 if context.config.feature_gates.level >= 37 else storagemigration_v1beta1
    return context.build(StorageVersionMigratorController, kind=version.StorageVersionMigration)
