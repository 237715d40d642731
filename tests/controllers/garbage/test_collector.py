"""garbage-collector-controller against a whole API server."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.resources.resource import GroupVersionKind, Resource
from sampan.api.schema.tree import Schema
from sampan.api.types.apiextensions_v1 import CustomResourceDefinition
from sampan.api.types.core_v1 import ConfigMap, Event, Namespace, PersistentVolume, Secret
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.api.unstructured import Unstructured
from sampan.controllers.garbage.collector import GarbageCollectorController
from sampan.machinery import errors
from sampan.machinery.client import DeleteParameters, PatchType, Selection
from sampan.machinery.client.client import ResourceClient
from tests.calls import check_growth, counted_calls
from tests.controllers.cluster import Cluster, check_second_run_writes_nothing, cluster, names_of
from tests.controllers.storage.builders import volume

NAME = GarbageCollectorController.name
FOREGROUND, ORPHAN, BACKGROUND = (DeleteParameters(propagation=word) for word in ("Foreground", "Orphan", "Background"))
HOLD = "example.com/hold"


def owner_of(owner: Any, **more: Any) -> OwnerReference:
    kind, version = owner.kind, owner.apiVersion
    return OwnerReference(apiVersion=version, kind=kind, name=owner.metadata.name, uid=owner.metadata.uid, **more)


def config_map(name: str, *owners: OwnerReference, namespace: str = "default", **meta: Any) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, ownerReferences=list(owners), **meta))


async def is_gone(objects: ResourceClient[Any], name: str, namespace: str = "default") -> bool:
    try:
        await objects.get(name, namespace)
    except errors.NotFound:
        return True
    return False


async def list_config_map_names(c: Cluster, namespace: str = "default") -> Sequence[str]:
    return names_of((await c.client.for_kind(ConfigMap).list(Selection(namespace=namespace))).items)


def graph_of(manager: Any) -> Any:
    return manager.runners[0].controller.graph


async def test_background_deletion_deletes_dependents_transitively() -> None:
    async with cluster() as c, c.running(NAME) as manager:
        maps = c.client.for_kind(ConfigMap)
        a = await maps.create(config_map("a"))
        b = await maps.create(config_map("b", owner_of(a)))
        await maps.create(config_map("c", owner_of(b)))
        await maps.create(config_map("other"))
        await c.clock.settle()
        assert await list_config_map_names(c) == ["a", "b", "c", "other"]
        await maps.delete("a", "default", options=BACKGROUND)
        await c.clock.settle()
        assert await list_config_map_names(c) == ["other"]
        assert graph_of(manager).size() == 0


async def test_objects_without_owners_are_not_kept_in_the_graph() -> None:
    async with cluster() as c, c.running(NAME) as manager:
        maps = c.client.for_kind(ConfigMap)
        for at in range(20):
            await maps.create(config_map(f"m{at}"))
        await c.clock.settle()
        empty = graph_of(manager).size()
        await maps.create(config_map("owned", owner_of(await maps.get("m3", "default"))))
        await c.clock.settle()
        assert graph_of(manager).size() == empty + 2


async def test_foreground_deletion_waits_only_for_blocking_dependents() -> None:
    async with cluster() as c, c.running(NAME):
        maps = c.client.for_kind(ConfigMap)
        a = await maps.create(config_map("a"))
        await maps.create(config_map("held", owner_of(a, blockOwnerDeletion=True), finalizers=[HOLD]))
        await maps.create(config_map("free", owner_of(a), finalizers=[HOLD]))
        await c.clock.settle()
        await maps.delete("a", "default", options=FOREGROUND)
        await c.clock.settle()
        assert (await maps.get("a", "default")).metadata.finalizers == ["foregroundDeletion"]
        for name in ("held", "free"):
            assert (await maps.get(name, "default")).metadata.deletionTimestamp is not None
        await maps.patch("held", {"metadata": {"finalizers": None}}, "default", type=PatchType.MERGE)
        await c.clock.settle()
        assert await list_config_map_names(c) == ["free"]


async def test_owner_is_deleted_once_its_dependent_no_longer_blocks() -> None:
    async with cluster() as c, c.running(NAME):
        maps = c.client.for_kind(ConfigMap)
        a = await maps.create(config_map("a"))
        await maps.create(config_map("held", owner_of(a, blockOwnerDeletion=True), finalizers=[HOLD]))
        await maps.delete("a", "default", options=FOREGROUND)
        await c.clock.settle()
        assert await list_config_map_names(c) == ["a", "held"]
        refs = {"metadata": {"ownerReferences": [{"uid": a.metadata.uid, "blockOwnerDeletion": False}]}}
        await maps.patch("held", refs, "default")
        await c.clock.settle()
        assert await list_config_map_names(c) == ["held"]


async def test_foreground_deletion_of_a_chain_ends_with_the_first_owner() -> None:
    async with cluster() as c, c.running(NAME):
        maps = c.client.for_kind(ConfigMap)
        a = await maps.create(config_map("a"))
        b = await maps.create(config_map("b", owner_of(a, blockOwnerDeletion=True)))
        await maps.create(config_map("c", owner_of(b, blockOwnerDeletion=True), finalizers=[HOLD]))
        await c.clock.settle()
        await maps.delete("a", "default", options=FOREGROUND)
        await c.clock.settle()
        for name in ("a", "b"):
            assert (await maps.get(name, "default")).metadata.finalizers == ["foregroundDeletion"]
        await maps.patch("c", {"metadata": {"finalizers": None}}, "default", type=PatchType.MERGE)
        await c.clock.settle()
        assert await list_config_map_names(c) == []


async def test_foreground_deletion_of_an_ownership_cycle_completes() -> None:
    async with cluster() as c, c.running(NAME):
        maps = c.client.for_kind(ConfigMap)
        owners = {name: await maps.create(config_map(name)) for name in "abc"}
        for name, owner in (("a", "c"), ("b", "a"), ("c", "b")):
            ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owners[owner].metadata.uid}
            patch = {"metadata": {"ownerReferences": [{**ref, "blockOwnerDeletion": True}]}}
            await maps.patch(name, patch, "default")
        await c.clock.settle()
        await maps.delete("a", "default", options=FOREGROUND)
        await c.clock.advance(5)
        assert await list_config_map_names(c) == []


async def test_orphan_deletion_keeps_dependents_and_removes_owner_references() -> None:
    async with cluster() as c:
        maps = c.client.for_kind(ConfigMap)
        async with c.running(NAME):
            a = await maps.create(config_map("a"))
            b = await maps.create(config_map("b"))
            for at in range(30):
                await maps.create(config_map(f"m{at}", owner_of(a), owner_of(b)))
            await c.clock.settle()
            await maps.delete("a", "default", options=ORPHAN)
            await c.clock.settle()
            assert len(await list_config_map_names(c)) == 31
            for kept in (await maps.list(Selection(namespace="default"))).items:
                owners = [ref.name for ref in kept.metadata.ownerReferences]
                assert owners == ([] if kept.metadata.name == "b" else ["b"])
        await check_second_run_writes_nothing(c, NAME)


async def test_reference_to_a_deleted_owner_is_removed_while_another_owner_exists() -> None:
    async with cluster() as c, c.running(NAME):
        maps = c.client.for_kind(ConfigMap)
        a = await maps.create(config_map("a"))
        b = await maps.create(config_map("b"))
        await maps.create(config_map("both", owner_of(a), owner_of(b, blockOwnerDeletion=True)))
        await c.clock.settle()
        await maps.delete("b", "default", options=FOREGROUND)
        await c.clock.settle()
        assert await list_config_map_names(c) == ["a", "both"]
        assert (await maps.get("both", "default")).metadata.ownerReferences == [owner_of(a)]


@pytest.mark.parametrize("is_other", [False, True], ids=["no object of that name", "object with another uid"])
async def test_object_with_absent_owner_is_deleted(is_other: bool) -> None:
    async with cluster() as c:
        maps = c.client.for_kind(ConfigMap)
        if is_other:
            await maps.create(config_map("a"))
        ref = OwnerReference(apiVersion="v1", kind="ConfigMap", name="a", uid="0-0")
        await maps.create(config_map("b", ref))
        async with c.running(NAME) as manager:
            assert await list_config_map_names(c) == (["a"] if is_other else [])
            assert graph_of(manager).size() == 0


async def test_owner_in_another_namespace_is_absent_and_reported() -> None:
    async with cluster() as c, c.running(NAME):
        maps = c.client.for_kind(ConfigMap)
        await c.client.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name="n")))
        a = await maps.create(config_map("a", namespace="n"))
        b = await maps.create(config_map("b", owner_of(a)))
        await c.clock.settle()
        assert await list_config_map_names(c) == []
        (event,) = (await c.client.for_kind(Event).list(Selection(namespace="default"))).items
        assert (event.type, event.reason, event.involvedObject.uid) == (
            "Warning",
            "OwnerRefInvalidNamespace",
            b.metadata.uid,
        )
        owner = f"[v1/ConfigMap, namespace: default, name: a, uid: {a.metadata.uid}]"
        assert event.message == f'ownerRef {owner} does not exist in namespace "default"'
        assert event.source.component == NAME


async def test_cluster_scoped_object_with_namespaced_owner_is_kept_and_reported() -> None:
    async with cluster() as c, c.running(NAME):
        maps, volumes = c.client.for_kind(ConfigMap), c.client.for_kind(PersistentVolume)
        a = await maps.create(config_map("a"))
        bad = volume("v")
        bad.metadata.ownerReferences = [owner_of(a)]
        await volumes.create(bad)
        await c.clock.settle()
        await maps.delete("a", "default")
        await c.clock.advance(60)
        assert not await is_gone(volumes, "v", "")
        events = (await c.client.for_kind(Event).list()).items
        assert [event.reason for event in events] == ["OwnerRefInvalidNamespace"]


async def test_cluster_scoped_owner_owns_namespaced_objects() -> None:
    async with cluster() as c, c.running(NAME):
        maps, volumes = c.client.for_kind(ConfigMap), c.client.for_kind(PersistentVolume)
        owner = await volumes.create(volume("v"))
        await maps.create(config_map("a", owner_of(owner)))
        await c.clock.settle()
        assert await list_config_map_names(c) == ["a"]
        await volumes.patch("v", {"metadata": {"finalizers": None}}, type=PatchType.MERGE)
        await volumes.delete("v")
        await c.clock.settle()
        assert await list_config_map_names(c) == []


async def test_dependents_of_an_unserved_kind_are_kept_until_it_is_served() -> None:
    async with cluster() as c, c.running(NAME):
        ref = OwnerReference(apiVersion="example.com/v1", kind="Boat", name="a", uid="0-0")
        await c.client.for_kind(ConfigMap).create(config_map("b", ref))
        await c.clock.advance(3600)
        assert await list_config_map_names(c) == ["b"]
        await serve_boats(c)
        assert await list_config_map_names(c) == []


def boats() -> CustomResourceDefinition:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "boats", "kind": "Boat"},
        "versions": [version],
    }
    return json.read(json.encode({"metadata": {"name": "boats.example.com"}, "spec": spec}), CustomResourceDefinition)


BOATS = Resource(
    group="example.com",
    version="v1",
    kind="Boat",
    plural="boats",
    singular="boat",
    storage=GroupVersionKind(group="example.com", version="v1", kind="Boat"),
    storage_prefix="/registry/example.com/boats",
    schema=Schema(type="object", preserve_unknown=True),
)


async def serve_boats(c: Cluster) -> ResourceClient[Any]:
    c.server.registry.scheme.add(BOATS)
    await c.client.for_kind(CustomResourceDefinition).create(boats())
    await c.clock.advance(5)
    return c.client.resource(BOATS)


def boat(name: str, *owners: OwnerReference) -> Unstructured:
    refs = [{"apiVersion": o.apiVersion, "kind": o.kind, "name": o.name, "uid": o.uid} for o in owners]
    meta = {"name": name, "namespace": "default", "ownerReferences": refs}
    return Unstructured.from_value({"kind": "Boat", "apiVersion": "example.com/v1", "metadata": meta})


async def test_custom_resources_are_owners_and_dependents() -> None:
    async with cluster() as c, c.running(NAME):
        boats, maps = await serve_boats(c), c.client.for_kind(ConfigMap)
        first = await boats.create(boat("first"))
        await maps.create(config_map("sail", owner_of(first)))
        second = await boats.create(boat("second", owner_of(first)))
        await maps.create(config_map("oar", owner_of(second)))
        await c.clock.settle()
        await boats.delete("first", "default", options=ORPHAN)
        await c.clock.settle()
        assert await list_config_map_names(c) == ["oar", "sail"]
        assert (await boats.get("second", "default")).metadata.ownerReferences == []
        await boats.delete("second", "default")
        await c.clock.settle()
        assert await list_config_map_names(c) == ["sail"]


async def test_removed_custom_resource_is_no_longer_monitored() -> None:
    async with cluster() as c, c.running(NAME) as manager:
        monitored = manager.runners[0].controller._monitors.monitored  # type: ignore[attr-defined]
        await serve_boats(c)
        assert ("example.com", "boats") in monitored
        c.server.registry.scheme.remove(BOATS)
        await c.client.for_kind(CustomResourceDefinition).delete("boats.example.com")
        await c.clock.advance(5)
        assert ("example.com", "boats") not in monitored


async def test_collector_handles_deletions_made_before_its_start() -> None:
    async with cluster() as c:
        maps, secrets = c.client.for_kind(ConfigMap), c.client.for_kind(Secret)
        a = await maps.create(config_map("a"))
        for at in range(5):
            secret = Secret(metadata=ObjectMeta(name=f"s{at}", namespace="default", ownerReferences=[owner_of(a)]))
            await secrets.create(secret)
        await maps.delete("a", "default", options=FOREGROUND)
        async with c.running(NAME):
            assert await list_config_map_names(c) == []
            assert (await secrets.list(Selection(namespace="default"))).items == []
        await check_second_run_writes_nothing(c, NAME)


async def count_calls_of_deletion(dependents: int) -> int:
    """Return how many functions are called to delete an owner with this many dependents in the background."""
    async with cluster() as c, c.running(NAME):
        maps = c.client.for_kind(ConfigMap)
        a = await maps.create(config_map("a"))
        for at in range(dependents):
            await maps.create(config_map(f"m{at}", owner_of(a)))
        await c.clock.settle()
        with counted_calls() as count:
            await maps.delete("a", "default", options=BACKGROUND)
            await c.clock.settle()
        assert await list_config_map_names(c) == []
        return count.calls


async def test_deletion_of_dependents_costs_no_more_than_n_log_n() -> None:
    check_growth(await count_calls_of_deletion(200), await count_calls_of_deletion(50))


async def test_owner_without_watch_verb_is_polled() -> None:
    async with cluster() as c:
        c.server.registry.scheme.add(replace(BOATS, verbs=("create", "delete", "get", "list")))
        boats = c.client.resource(BOATS)
        async with c.running(NAME):
            owner = await boats.create(boat("first"))
            await c.client.for_kind(ConfigMap).create(config_map("sail", owner_of(owner)))
            await c.clock.advance(1000)
            assert await list_config_map_names(c) == ["sail"]
            await boats.delete("first", "default")
            await c.clock.advance(301)
            assert await list_config_map_names(c) == []
