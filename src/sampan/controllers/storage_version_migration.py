"""storage-version-migrator-controller, which rewrites all objects of a resource in its current storage version, and
then removes the other versions from `status.storedVersions` of its CustomResourceDefinition.

It runs only where the API server serves StorageVersionMigrations, which is off by default; alone, only with the feature
gate StorageVersionMigrator. The counterpart is `pkg/controller/storageversionmigrator`.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from sampan.api.resources.resource import GroupVersionKind, Resource
from sampan.api.semantics.conditions import find_condition, is_true, without_condition
from sampan.api.types.apiextensions_v1 import CustomResourceDefinition, CustomResourceDefinitionCondition
from sampan.api.types.meta_v1 import Condition, GroupResource
from sampan.api.types.storagemigration_v1beta1 import StorageVersionMigration
from sampan.api.values import times
from sampan.controllers.descriptor import ControllerContext
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, PatchType, WriteParameters, resource_of
from sampan.machinery.client.discovery import Discovery
from sampan.machinery.control_loop.controller import RetryLater, Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory

log = logging.getLogger(__name__)

NAME = "storage-version-migrator-controller"
RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"
STORAGE_MIGRATING = "StorageMigrating"
"""The condition of a CustomResourceDefinition whose objects are migrated."""
_REASONS = {
    RUNNING: ("MigrationRunning", "The migration is running"),
    SUCCEEDED: ("StorageVersionMigrationSucceeded", ""),
    FAILED: ("StorageVersionMigrationFailed", ""),
}


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

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._migrations, self._definitions = (
            client.for_kind(StorageVersionMigration),
            client.for_kind(CustomResourceDefinition),
        )
        self._known = informers.for_kind(StorageVersionMigration).lister
        self._discovery = Discovery(client)
        self.watches = (Watch(resource_of(StorageVersionMigration), self._affected_migration_keys),)

    def _affected_migration_keys(self, changed: StorageVersionMigration) -> Iterable[Hashable]:
        """Return the changed migration, and the migrations of the same resource that wait for it."""
        resource = changed.spec.resource
        waiting = {other.metadata.name for other in self._known.list() if other.spec.resource == resource}
        return waiting | {changed.metadata.name}

    async def reconcile(self, key: str) -> None:
        migration = self._known.get(key)
        if migration is None:
            return
        running = find_condition(migration.status.conditions, RUNNING)
        if is_finished(migration):
            if running is not None:
                await self._clean_up(migration)
            return
        if running is None or running.status != "True":
            if is_next(migration, self._known.list()):
                await self._start(migration)
            return
        await self._migrate(migration)

    # -- steps -------------------------------------------------------------------------------------------------------

    async def _start(self, migration: StorageVersionMigration) -> None:
        """Record that the migration is running, and at which resource version it has started."""
        resource = await self._find_served_resource(migration.spec.resource)
        if resource is None:
            await self._write(migration, FAILED, message="resource does not exist in discovery")
            return
        page = await self._client.metadata(resource).list(limit=1)
        await self._mark_definition(migration)
        await self._write(migration, RUNNING, resource_version=page.resource_version)

    async def _migrate(self, migration: StorageVersionMigration) -> None:
        resource = await self._find_served_resource(migration.spec.resource)
        if resource is None:
            await self._write(migration, FAILED, message="resource not found")
            return
        await self._require_storage_version(resource)
        try:
            async for page in self._client.metadata(resource).pages():
                for obj in page.items:
                    await self._rewrite(resource, obj)
        except (errors.TooManyRequests, errors.Expired) as error:
            raise RetryLater(f"migration {migration.metadata.name} starts again: {error}") from error
        except errors.ApiError as error:
            log.warning("storage version migration %s has failed: %s", migration.metadata.name, error)
            await self._write(migration, FAILED, message="migration encountered unhandled error")
            return
        await self._write(migration, SUCCEEDED)

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

    async def _rewrite(self, resource: Resource, obj: Any) -> None:
        """Apply an empty configuration, which makes the API server store the object again if it is stored in another
        version. With UID and resource version, an object that was changed, deleted or created again in the meantime is
        a conflict: it needs no migration."""
        meta = obj.metadata
        identity = {"uid": meta.uid, "resourceVersion": meta.resourceVersion}
        value = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": identity}
        try:
            await self._client.metadata(resource).patch(
                meta.name, value, meta.namespace, type=PatchType.APPLY, options=WriteParameters(field_manager=NAME)
            )
        except (errors.Conflict, errors.NotFound) as error:
            log.debug("%s %s/%s needs no migration: %s", resource.plural, meta.namespace, meta.name, error)

    async def _clean_up(self, migration: StorageVersionMigration) -> None:
        """Update the definition of a migrated custom resource, then remove the condition Running."""
        await self._release_definition(migration)
        changed = copy_of(migration)
        changed.status.conditions = without_condition(migration.status.conditions, RUNNING)
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
            await self._write_definition(definition, "True", "MigrationFailed", "The migration has failed")
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

    async def _write(
        self, migration: StorageVersionMigration, state: str, *, message: str = "", resource_version: str = ""
    ) -> None:
        """Add the condition of a state. A finished migration is not running."""
        changed = copy_of(migration)
        status = changed.status
        running = find_condition(status.conditions, RUNNING)
        if running is not None:
            running.status, running.lastTransitionTime = "False", self._format_now()
        reason, text = _REASONS[state]
        condition = Condition(
            type=state, status="True", lastTransitionTime=self._format_now(), reason=reason, message=message or text
        )
        status.conditions = [*without_condition(status.conditions, state), condition]
        status.resourceVersion = status.resourceVersion or resource_version
        await self._update(changed)

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
    return context.build(StorageVersionMigratorController)
