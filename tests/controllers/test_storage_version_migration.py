"""Migration of the stored objects of a custom resource to another storage version."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.api.resources.resource import Resource
from sampan.api.semantics.conditions import find_condition, is_true
from sampan.api.types.apiextensions_v1 import CustomResourceDefinition
from sampan.api.types.meta_v1 import Condition, GroupResource, ObjectMeta
from sampan.api.types.storagemigration_v1 import StorageVersionMigration, StorageVersionMigrationSpec
from sampan.api.unstructured import Unstructured
from sampan.controllers.manager import ControllerManager
from sampan.controllers.storage_version_migration import (
    FAILED,
    NAME,
    RUNNING,
    SUCCEEDED,
    MigratedObject,
    MigrationProgress,
    StorageVersionMigratorController,
    is_next,
)
from sampan.machinery import errors
from sampan.machinery.client import PatchType
from sampan.machinery.client.discovery import Discovery
from tests.controllers.cluster import CONFIG, Cluster, cluster

SERVED: dict[str, bool] = {}
GATES = FeatureGates(level=37)
GROUP, PLURAL, KIND = "migrated.example.com", "widgets", "Widget"
DEFINITION = f"{PLURAL}.{GROUP}"
WIDGETS = Resource(group=GROUP, version="v1", kind=KIND, plural=PLURAL, singular="widget", namespaced=True)
COUNT = 30


def _version(name: str, *, is_storage: bool) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    return {"name": name, "served": True, "storage": is_storage, "schema": {"openAPIV3Schema": schema}}


def _versions(storage: str) -> list[dict[str, Any]]:
    return [_version(name, is_storage=name == storage) for name in ("v1", "v2")]


def _definition() -> CustomResourceDefinition:
    names = {"plural": PLURAL, "kind": KIND, "singular": "widget", "listKind": "WidgetList"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": _versions("v1")}
    return msgspec.convert({"metadata": {"name": DEFINITION}, "spec": spec}, CustomResourceDefinition)


def _migration(name: str = "m", resource: str = PLURAL, group: str = GROUP) -> StorageVersionMigration:
    spec = StorageVersionMigrationSpec(resource=GroupResource(group=group, resource=resource))
    return StorageVersionMigration(metadata=ObjectMeta(name=name), spec=spec)


@asynccontextmanager
async def _widget_cluster() -> AsyncIterator[tuple[Cluster, ControllerManager]]:
    """A cluster with the controller and some objects that are stored in v1, whose definition stores v2."""
    async with cluster(SERVED, GATES) as here, here.running(NAME, config=_config()) as manager:
        definitions = here.client.for_kind(CustomResourceDefinition)
        await definitions.create(_definition())
        await _settle(here)
        for number in range(COUNT):
            value = {"metadata": {"name": f"w{number}"}, "spec": {"size": number}}
            await here.client.resource(WIDGETS).create(_widget(value), "default")
        patch = {"spec": {"versions": _versions("v2")}}
        await definitions.patch(DEFINITION, patch, type=PatchType.MERGE)
        await _settle(here)
        yield here, manager


def _config() -> Any:
    return replace(CONFIG, serves_storage_migration=True, feature_gates=GATES)


def _widget(value: dict[str, Any]) -> Unstructured:
    body = {"apiVersion": f"{GROUP}/v1", "kind": KIND, **value}
    return Unstructured.from_value(body)


async def _settle(here: Cluster) -> None:
    await here.clock.settle()


async def _read_stored_values(here: Cluster) -> list[bytes]:
    page = await here.backend.range(f"/registry/{GROUP}/{PLURAL}/")
    return [entry.value for entry in page.entries]


async def _wait_until_finished(here: Cluster, name: str = "m") -> StorageVersionMigration:
    for _ in range(20):
        await here.clock.advance(1)
        migration = await here.client.for_kind(StorageVersionMigration).get(name)
        states = migration.status.conditions
        if (is_true(states, SUCCEEDED) or is_true(states, FAILED)) and not is_true(states, RUNNING):
            return migration
    raise AssertionError(migration.status)


async def test_objects_are_rewritten_and_the_old_version_can_be_removed() -> None:
    async with _widget_cluster() as (here, _):
        assert all(b"/v1" in value for value in await _read_stored_values(here))
        migrations, definitions = (
            here.client.for_kind(StorageVersionMigration),
            here.client.for_kind(CustomResourceDefinition),
        )
        only_new = {"spec": {"versions": [_version("v2", is_storage=True)]}}
        with pytest.raises(errors.Invalid, match="storage migration ensures no data remains"):
            await definitions.patch(DEFINITION, only_new, type=PatchType.MERGE)
        await migrations.create(_migration())
        finished = await _wait_until_finished(here)
        assert [
            (condition.type, condition.status, condition.reason, condition.message)
            for condition in finished.status.conditions
        ] == [
            (RUNNING, "False", "MigrationCompleted", "Migration completed"),
            (SUCCEEDED, "True", "StorageVersionMigrationSucceeded", "Migration completed"),
        ]
        assert int(finished.status.resourceVersion) > 0
        assert all(
            value.startswith(b'{"kind":"Widget","apiVersion":"%b/v2"' % GROUP.encode())
            for value in await _read_stored_values(here)
        )
        definition = await definitions.get(DEFINITION)
        assert definition.status.storedVersions == ["v2"]
        marked = find_condition(definition.status.conditions or (), "StorageMigrating")
        assert marked is not None
        assert (marked.status, marked.reason) == ("False", "MigrationSucceeded")
        await definitions.patch(DEFINITION, only_new, type=PatchType.MERGE)
        await _settle(here)
        page = await here.client.resource(replace(WIDGETS, version="v2")).list()
        assert len(page.items) == COUNT
        assert not any(item.metadata.managedFields and NAME in str(item.metadata.managedFields) for item in page.items)


def _hold_storage_version(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Return an event; until it is set, the API server seems to store objects in another version than defined."""
    stored_as_defined = asyncio.Event()
    actual_hash = Discovery.storage_version_hash

    async def storage_version_hash(discovery: Discovery, resource: Resource) -> str:
        return await actual_hash(discovery, resource) if stored_as_defined.is_set() else "other"

    monkeypatch.setattr(Discovery, "storage_version_hash", storage_version_hash)
    return stored_as_defined


async def test_running_condition_is_set_until_the_storage_version_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    stored_as_defined = _hold_storage_version(monkeypatch)
    async with _widget_cluster() as (here, _):
        migrations = here.client.for_kind(StorageVersionMigration)
        await migrations.create(_migration())
        await _settle(here)
        running = await migrations.get("m")
        assert is_true(running.status.conditions, RUNNING)
        definition = await here.client.for_kind(CustomResourceDefinition).get(DEFINITION)
        assert is_true(definition.status.conditions or (), "StorageMigrating")
        assert all(b"/v1" in value for value in await _read_stored_values(here))
        stored_as_defined.set()
        await _wait_until_finished(here)


async def test_crd_changed_during_migration_keeps_its_stored_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    stored_as_defined = _hold_storage_version(monkeypatch)
    async with _widget_cluster() as (here, _):
        definitions = here.client.for_kind(CustomResourceDefinition)
        await here.client.for_kind(StorageVersionMigration).create(_migration())
        await _settle(here)
        patch = {"spec": {"versions": _versions("v1")}}
        await definitions.patch(DEFINITION, patch, type=PatchType.MERGE)
        stored_as_defined.set()
        assert is_true((await _wait_until_finished(here)).status.conditions, SUCCEEDED)
        assert (await definitions.get(DEFINITION)).status.storedVersions == ["v1", "v2"]


async def test_migration_of_an_unknown_resource_fails_after_a_minute() -> None:
    async with _widget_cluster() as (here, _):
        migrations = here.client.for_kind(StorageVersionMigration)
        await migrations.create(_migration(resource="gadgets"))
        await here.clock.advance(50)
        (running,) = (await migrations.get("m")).status.conditions
        assert (running.type, running.message) == (RUNNING, "The migration is running")
        await here.clock.advance(1000)
        running, failed = (await migrations.get("m")).status.conditions
        assert (running.status, running.reason) == ("False", "MigrationCompleted")
        assert (failed.type, failed.message) == (FAILED, "resource does not exist in discovery")


async def test_migration_of_a_resource_without_the_verbs_fails() -> None:
    async with _widget_cluster() as (here, _):
        await here.client.for_kind(StorageVersionMigration).create(_migration(resource="componentstatuses", group=""))
        failed = find_condition((await _wait_until_finished(here)).status.conditions, FAILED)
        assert failed is not None
        assert failed.message == (
            'resource "/v1, Resource=componentstatuses" does not support discovery operations: [update patch list]'
        )


@pytest.mark.parametrize(
    ("failure", "state", "message"),
    [
        (
            errors.TooManyRequests("wait"),
            RUNNING,
            "The migration is running, 27/30 objects not yet migrated; transient error: wait",
        ),
        (errors.Forbidden("no"), FAILED, "27/30 not yet migrated. migration encountered unhandled error: no"),
    ],
)
async def test_progress_is_reported(
    failure: errors.ApiError, state: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite, rewritten = StorageVersionMigratorController._rewrite, list[str]()

    async def fail_after_three(controller: Any, resource: Resource, obj: MigratedObject) -> None:
        if len(rewritten) == 3:
            rewritten.append("")
            raise failure
        rewritten.append(obj.name)
        await rewrite(controller, resource, obj)

    monkeypatch.setattr(StorageVersionMigratorController, "_rewrite", fail_after_three)
    async with _widget_cluster() as (here, _):
        migrations = here.client.for_kind(StorageVersionMigration)
        reported: set[tuple[str, str]] = set()
        await migrations.create(_migration())
        async with migrations.watch() as events, asyncio.timeout(60):
            async for batch in events:
                for event in batch:
                    if event.object is not None:
                        reported |= {
                            (condition.type, condition.message) for condition in event.object.status.conditions
                        }
                if (state, message) in reported:
                    break


@pytest.mark.parametrize(
    ("total", "remaining", "message"),
    [
        (0, 0, "The migration is running"),
        (3, 2, "The migration is running, 2/3 objects not yet migrated"),
        (3, 0, "The migration is running, 3 objects verified migrated"),
    ],
)
def test_message_of_progress(total: int, remaining: int, message: str) -> None:
    assert MigrationProgress(total=total, remaining=remaining).message == message


async def test_two_migrations_of_a_built_in_resource_succeed() -> None:
    async with _widget_cluster() as (here, _):
        migrations = here.client.for_kind(StorageVersionMigration)
        for name in ("a", "b"):
            await migrations.create(_migration(name, "configmaps", ""))
        for name in ("a", "b"):
            assert is_true((await _wait_until_finished(here, name)).status.conditions, SUCCEEDED)


async def test_a_finished_migration_writes_nothing() -> None:
    async with _widget_cluster() as (here, _):
        await here.client.for_kind(StorageVersionMigration).create(_migration())
        await _wait_until_finished(here)
        await here.clock.advance(5)
        before = await here.revision()
        await here.clock.advance(60)
        assert await here.revision() == before


def test_the_oldest_migration_of_a_resource_is_next() -> None:
    old, new, other = _migration("z"), _migration("a"), _migration("b", "others")
    old.metadata.creationTimestamp, new.metadata.creationTimestamp = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    everything = [new, other, old]
    assert [migration.metadata.name for migration in everything if is_next(migration, everything)] == ["b", "z"]
    old.status.conditions = [Condition(type=RUNNING, status="True")]
    assert not is_next(new, everything)


async def test_controller_does_not_run_without_the_migration_api() -> None:
    async with cluster() as here, here.running(NAME) as manager:
        assert not manager.runners
