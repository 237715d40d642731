"""The client, with the loopback transport and with the HTTP transport."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sampan.api.resources.resource import GroupVersionKind, Resource
from sampan.api.schema.tree import Schema
from sampan.api.scheme import builtin_scheme
from sampan.api.types.core_v1 import ConfigMap, Namespace, NamespaceCondition, Pod, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta, PartialObjectMetadata
from sampan.api.unstructured import Unstructured
from sampan.machinery import client as package
from sampan.machinery import errors
from sampan.machinery.client import (
    ADDED,
    BOOKMARK,
    DELETED,
    MODIFIED,
    Client,
    DeleteParameters,
    PatchType,
    Request,
    Selection,
    WatchEvent,
    WriteParameters,
    builtin,
    resource_of,
)
from sampan.machinery.client.discovery import Discovery
from tests.api_server import TRANSPORTS, Server, running_api_server
from tests.shared_objects import modified_shared_objects

Body = Callable[[Server, Client], Awaitable[None]]


def run(transport: str, body: Body) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), running_api_server() as server:
            await body(server, server.client(transport))

    asyncio.run(main())


def config_map(name: str, namespace: str = "a", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


both_transports = pytest.mark.parametrize("transport", TRANSPORTS)


@both_transports
def test_create_get_update_delete(transport: str) -> None:
    async def body(server: Server, client: Client) -> None:
        maps = client.for_kind(ConfigMap)
        created = await maps.create(config_map("m", x="1"))
        assert (created.metadata.name, created.data) == ("m", {"x": "1"})
        assert created.metadata.uid
        stored = await maps.get("m", "a")
        assert stored == created
        changed = await maps.update(ConfigMap(metadata=stored.metadata, data={"x": "2"}))
        assert changed.metadata.resourceVersion != created.metadata.resourceVersion
        with pytest.raises(errors.Conflict):
            await maps.update(ConfigMap(metadata=created.metadata, data={"x": "3"}))
        await maps.delete("m", "a")
        with pytest.raises(errors.NotFound) as caught:
            await maps.get("m", "a")
        assert str(caught.value) == 'configmaps "m" not found'
        assert caught.value.details == {"name": "m", "kind": "configmaps"}

    run(transport, body)


@both_transports
def test_creating_an_existing_object_raises_already_exists(transport: str) -> None:
    async def body(server: Server, client: Client) -> None:
        await client.for_kind(ConfigMap).create(config_map("m"))
        with pytest.raises(errors.AlreadyExists):
            await client.for_kind(ConfigMap).create(config_map("m"))

    run(transport, body)


@both_transports
@pytest.mark.parametrize(
    ("type", "patch"),
    [
        (PatchType.JSON, [{"op": "add", "path": "/data/y", "value": "2"}]),
        (PatchType.MERGE, {"data": {"y": "2"}}),
        (PatchType.STRATEGIC, {"data": {"y": "2"}}),
    ],
)
def test_patch(transport: str, type: PatchType, patch: Any) -> None:
    async def body(server: Server, client: Client) -> None:
        await client.for_kind(ConfigMap).create(config_map("m", x="1"))
        patched = await client.for_kind(ConfigMap).patch("m", patch, "a", type=type)
        assert patched.data == {"x": "1", "y": "2"}

    run(transport, body)


@both_transports
def test_status_changes_only_by_update_status(transport: str) -> None:
    async def body(server: Server, client: Client) -> None:
        namespaces = client.for_kind(Namespace)
        namespace = await namespaces.create(Namespace(metadata=ObjectMeta(name="n")))
        namespace.status.conditions = [NamespaceCondition(type="Seen", status="True")]
        changed = await namespaces.update_status(namespace)
        assert [condition.type for condition in changed.status.conditions] == ["Seen"]
        namespace.metadata.resourceVersion, namespace.status.conditions = "", []
        assert len((await namespaces.update(namespace)).status.conditions) == 1, (
            "an update of the object keeps the status"
        )

    run(transport, body)


@both_transports
def test_dry_run_stores_nothing(transport: str) -> None:
    async def body(server: Server, client: Client) -> None:
        maps = client.for_kind(ConfigMap)
        await maps.create(config_map("m"), options=WriteParameters(dry_run=True))
        assert (await maps.list()).items == []
        await maps.create(config_map("m"))
        await maps.delete("m", "a", options=DeleteParameters(dry_run=True))
        assert len((await maps.list()).items) == 1

    run(transport, body)


@both_transports
def test_delete_with_another_uid_raises_conflict(transport: str) -> None:
    async def body(server: Server, client: Client) -> None:
        await client.for_kind(ConfigMap).create(config_map("m"))
        with pytest.raises(errors.Conflict):
            await client.for_kind(ConfigMap).delete("m", "a", options=DeleteParameters(uid="someone-else"))

    run(transport, body)


@both_transports
def test_list_in_pages_and_by_selection(transport: str) -> None:
    async def body(server: Server, client: Client) -> None:
        maps = client.for_kind(ConfigMap)
        for number in range(7):
            await maps.create(config_map(f"m{number}", "a" if number < 5 else "b"))
        whole = await maps.list()
        assert [item.metadata.name for item in whole.items] == [f"m{number}" for number in range(7)]
        first = await maps.list(limit=3)
        assert (len(first.items), first.remaining) == (3, 4)
        assert first.continue_token
        paged = await maps.list_all(limit=3)
        assert list(paged.items) == list(whole.items)
        assert paged.resource_version == whole.resource_version
        inside = await maps.list(Selection(namespace="b"), resource_version="0")
        assert [item.metadata.name for item in inside.items] == ["m5", "m6"]
        selected = await maps.list(Selection(fields="metadata.name=m3"))
        assert [item.metadata.name for item in selected.items] == ["m3"]

    run(transport, body)


@both_transports
def test_delete_collection(transport: str) -> None:
    async def body(server: Server, client: Client) -> None:
        maps = client.for_kind(ConfigMap)
        for name, namespace in (("x", "a"), ("y", "a"), ("x", "b")):
            await maps.create(config_map(name, namespace))
        await maps.delete_collection(Selection(namespace="a"))
        assert [item.metadata.namespace for item in (await maps.list()).items] == ["b"]

    run(transport, body)


@both_transports
def test_watch(transport: str) -> None:
    async def body(server: Server, client: Client) -> None:
        maps = client.for_kind(ConfigMap)
        await maps.create(config_map("old"))
        async with maps.watch(initial_events=True) as events:
            batch = [*(await anext(events))]
            while not batch[-1].ends_initial_events:
                batch += await anext(events)
            assert [(event.type, event.key.name) for event in batch] == [(ADDED, "old"), (BOOKMARK, "")]
            created = await maps.create(config_map("new", x="1"))
            created = await maps.update(ConfigMap(metadata=created.metadata, data={"x": "2"}))
            await maps.delete("new", "a")
            received: list[WatchEvent] = []
            while len(received) < 3:
                received += await anext(events)
        assert [event.type for event in received] == [ADDED, MODIFIED, DELETED]
        assert [event.object.data for event in received] == [{"x": "1"}, {"x": "2"}, {"x": "2"}]
        assert received[1].resource_version == created.metadata.resourceVersion
        versions = [int(event.resource_version) for event in received]
        assert versions == sorted(set(versions))

    run(transport, body)


async def test_watch_ends_without_error_at_its_timeout() -> None:
    """The watches over all transports run at the same time, because they wait for real time."""

    async def watch(client: Client) -> float:
        began = time.monotonic()
        async with client.for_kind(ConfigMap).watch(resource_version="1", timeout_s=1) as events:
            assert [event async for batch in events for event in batch if event.type != BOOKMARK] == []
        return time.monotonic() - began

    async with asyncio.timeout(60), running_api_server() as server:
        await server.client().for_kind(ConfigMap).list()
        took_s = await asyncio.gather(*(watch(server.client(transport)) for transport in TRANSPORTS))
    assert min(took_s) > 0.95


@both_transports
def test_watch_from_a_compacted_version_raises_expired(transport: str) -> None:
    async def body(server: Server, client: Client) -> None:
        for name in "xyz":
            await client.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name=name)))
        await server.backend.compact(await server.backend.current_revision())
        with pytest.raises(errors.Expired):
            async with client.for_kind(ConfigMap).watch(resource_version="1") as events:
                await anext(events)

    run(transport, body)


@both_transports
def test_partial_object_metadata(transport: str) -> None:
    async def body(server: Server, client: Client) -> None:
        await client.for_kind(ConfigMap).create(config_map("m", x="1"))
        metas = client.metadata(builtin("configmaps"))
        (item,) = (await metas.list()).items
        assert isinstance(item, PartialObjectMetadata)
        assert item.metadata.name == "m"
        assert isinstance(await metas.get("m", "a"), PartialObjectMetadata)
        async with metas.watch(initial_events=True) as events:
            first = (await anext(events))[0]
            assert isinstance(first.object, PartialObjectMetadata)
            assert first.key.name == "m"

    run(transport, body)


BOATS = Resource(
    group="example.com",
    version="v1",
    kind="Boat",
    plural="boats",
    singular="boat",
    schema=Schema(type="object", preserve_unknown=True),
    storage=GroupVersionKind(group="example.com", version="v1", kind="Boat"),
    storage_prefix="/registry/example.com/boats",
)


def boat(name: str, **spec: Any) -> Unstructured:
    meta = ObjectMeta(name=name, namespace="a")
    return Unstructured(kind="Boat", apiVersion="example.com/v1", metadata=meta, content={"spec": spec})


@both_transports
def test_unstructured_objects(transport: str) -> None:
    async def body(server: Server, client: Client) -> None:
        server.scheme.add(BOATS)
        boats = client.resource(BOATS)
        created = await boats.create(boat("s", sails=2))
        assert isinstance(created, Unstructured)
        assert (created.kind, created.apiVersion, created.spec) == ("Boat", "example.com/v1", {"sails": 2})
        patched = await boats.patch("s", {"spec": {"sails": 3}}, "a", type=PatchType.MERGE)
        assert patched.spec == {"sails": 3}
        (listed,) = (await boats.list()).items
        assert (listed.kind, listed.metadata.name, listed.spec) == ("Boat", "s", {"sails": 3})
        async with boats.watch(initial_events=True) as events:
            (first, *_) = await anext(events)
            assert first.object.spec == {"sails": 3}
        await boats.delete("s", "a")
        with pytest.raises(errors.NotFound) as caught:
            await boats.get("s", "a")
        assert str(caught.value) == 'boats.example.com "s" not found'

    run(transport, body)


@both_transports
def test_warnings_are_reported(transport: str) -> None:
    async def body(server: Server, client: Client) -> None:
        warnings: list[str] = []
        path, headers = "/api/v1/namespaces/a/configmaps", {"Content-Type": "application/json"}
        warned = Client(
            transport=server.transport(transport), clock=server.clock, component="test", on_warning=warnings.append
        )
        raw = b'{"metadata":{"name":"m"},"no\\"such":1}'
        await warned.send(Request(method="POST", path=path, headers=headers, body=raw))
        assert warnings == ['unknown field "no\\"such"']

    run(transport, body)


def test_modified_shared_objects_are_detected() -> None:
    async def body(server: Server, client: Client) -> None:
        await client.for_kind(ConfigMap).create(config_map("m", x="1"))
        shared = await client.for_kind(ConfigMap).get("m", "a")
        assert modified_shared_objects(server.registry) == []
        shared.data["x"] = "2"
        assert modified_shared_objects(server.registry) == ["/registry/configmaps/a/m"]
        shared.data["x"] = "1"

    run("loopback", body)


def test_exported_names_of_the_package() -> None:
    assert sorted(package._MODULES) == sorted(package.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = package.nonsense


def test_loopback_shares_decoded_objects_of_the_cache() -> None:
    async def body(server: Server, client: Client) -> None:
        maps = client.for_kind(ConfigMap)
        await maps.create(config_map("m"))
        assert await maps.get("m", "a") is (await maps.list()).items[0]

    run("loopback", body)


@both_transports
def test_user_agent_names_the_component(transport: str) -> None:
    names: list[str] = []

    async def body(server: Server, client: Client) -> None:
        serve_as = server.pipeline.serve_as

        async def spy(call: Any) -> Any:
            names.append(call.user_agent)
            return await serve_as(call)

        server.pipeline.serve_as = spy  # type: ignore[method-assign]
        await server.client(transport, "kube-scheduler").for_kind(Pod).list()

    run(transport, body)
    assert names == ["kube-scheduler/sampan"]


@both_transports
def test_discovery_lists_preferred_resources(transport: str) -> None:
    async def body(server: Server, client: Client) -> None:
        resources, failure = await Discovery(client).discover_preferred()
        assert failure == ""
        rows = {(row.group, row.plural): row for row in resources}
        assert rows["", "pods"].namespaced
        assert not rows["", "nodes"].namespaced
        assert rows["autoscaling", "horizontalpodautoscalers"].version == "v2"
        assert "deletecollection" in rows["apps", "deployments"].verbs
        assert len(resources) == len({(row.group, row.plural) for row in builtin_scheme()})

    run(transport, body)


@both_transports
def test_unknown_path_raises_not_found(transport: str) -> None:
    async def body(server: Server, client: Client) -> None:
        with pytest.raises(errors.NotFound):
            await client.send(Request(method="GET", path="/no/such/path"))

    run(transport, body)


def test_resources_by_type_and_name() -> None:
    assert resource_of(Pod).plural == "pods"
    assert builtin("deployments", "apps").version == "v1"
    assert resource_of(ServiceAccount) is builtin("serviceaccounts")
    with pytest.raises(LookupError, match="no built-in resource 'boats'"):
        builtin("boats")
    with pytest.raises(LookupError):
        resource_of(PartialObjectMetadata)
