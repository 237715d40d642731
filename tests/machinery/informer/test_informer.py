"""Informers with an API server, on both transports, with and without injected faults."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from sampan.api.selectors import labels
from sampan.api.types.core_v1 import ConfigMap, Namespace
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference, PartialObjectMetadata
from sampan.machinery import errors
from sampan.machinery.client import Client, ResourceClient, Selection, builtin
from sampan.machinery.client.client import PAGE_SIZE
from sampan.machinery.informer import (
    Informer,
    InformerFactory,
    ReflectorConfig,
    by_controller,
    by_owner,
)
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.storage.cacher import TooSlow
from tests.api_server import TRANSPORTS, Server, running_api_server
from tests.eventually import eventually
from tests.machinery.informer.faults import FaultyTransport

both_transports = pytest.mark.parametrize("transport", TRANSPORTS)
FAST_RETRY = ReflectorConfig(retry_s=(0.001, 0.005))


def config_map(name: str, namespace: str = "a", labels: dict[str, str] | None = None, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels or {}), data=data)


@dataclass
class Log:
    """A handler that records notifications, and checks that each one continues the last state of its object."""

    notifications: list[tuple[str, str]] = field(default_factory=list)
    known: dict[NamespacedName, Any] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    faults: list[str] = field(default_factory=list)

    def __call__(self, old: Any, new: Any) -> None:
        key = key_of(new if new is not None else old)
        if self.known.pop(key, None) is not old:
            self.faults.append(f"{key}: the old state is not that of the last notification")
        if new is not None:
            self.known[key] = new
        if old is not None and new is not None:
            if old.metadata.uid != new.metadata.uid:
                self.faults.append(f"{key}: an update replaced the object by another one")
            if int(old.metadata.resourceVersion) >= int(new.metadata.resourceVersion):
                self.faults.append(f"{key}: the resource version did not increase")
        self.notifications.append(("delete" if new is None else "add" if old is None else "update", key.name))
        self.changed.set()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()
        assert not self.faults


def run(body: Callable[[Server], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), running_api_server() as server:
            await body(server)

    asyncio.run(main())


@both_transports
def test_handler_receives_existing_objects_and_changes(transport: str) -> None:
    async def body(server: Server) -> None:
        client = server.client(transport)
        maps = client.for_kind(ConfigMap)
        await maps.create(config_map("old"))
        informer, log = InformerFactory(client=client), Log()
        async with informer as factory:
            config_maps = factory.for_kind(ConfigMap)
            config_maps.subscribe(log)
            await config_maps.synced.wait()
            assert log.notifications == [("add", "old")]
            created = await maps.create(config_map("new"))
            await maps.update(ConfigMap(metadata=created.metadata, data={"x": "1"}))
            await maps.delete("new", "a")
            await log.wait_until(lambda: len(log.notifications) == 4)
            assert log.notifications[1:] == [("add", "new"), ("update", "new"), ("delete", "new")]
            assert [obj.metadata.name for obj in config_maps.lister] == ["old"]
            late = Log()
            config_maps.subscribe(late)
            assert late.notifications == [("add", "old")]

    run(body)


def test_informers_are_shared_by_resource_and_selection() -> None:
    async def body(server: Server) -> None:
        factory = InformerFactory(client=server.client())
        assert factory.for_kind(ConfigMap) is factory.informer(builtin("configmaps"))
        assert factory.for_kind(ConfigMap, Selection(namespace="a")) is not factory.for_kind(ConfigMap)
        assert factory.informer(builtin("configmaps"), metadata_only=True) is not factory.for_kind(ConfigMap)

    run(body)


def test_a_forgotten_informer_stops() -> None:
    async def body(server: Server) -> None:
        client, log = server.client(), Log()
        async with InformerFactory(client=client) as factory:
            informer = factory.for_kind(ConfigMap)
            informer.subscribe(log)
            await informer.synced.wait()
            factory.forget(builtin("configmaps"))
            factory.forget(builtin("secrets"))
            await client.for_kind(ConfigMap).create(config_map("unseen"))
            other = factory.for_kind(ConfigMap)
            await other.synced.wait()
            assert other is not informer
            assert (len(other.lister), log.notifications) == (1, [])

    run(body)


def test_informers_stop_when_starting_them_is_cancelled() -> None:
    async def body(server: Server) -> None:
        factory = InformerFactory(client=server.client())
        factory.for_kind(ConfigMap)
        factory.for_kind(Namespace)
        others = asyncio.all_tasks()
        starting = asyncio.create_task(factory.__aenter__())
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        left = asyncio.all_tasks() - others
        assert not [task for task in left if task.get_name().startswith("informer of")]

    run(body)


def test_loopback_informers_share_objects() -> None:
    async def body(server: Server) -> None:
        client = server.client()
        await client.for_kind(ConfigMap).create(config_map("m"))
        async with InformerFactory(client=client) as first_factory, InformerFactory(client=client) as other:
            first, second = first_factory.for_kind(ConfigMap), other.for_kind(ConfigMap)
            await first.synced.wait()
            await second.synced.wait()
            assert first.lister.get("m", "a") is second.lister.get("m", "a")

    run(body)


@both_transports
def test_informer_with_a_selection_receives_only_matching_objects(transport: str) -> None:
    async def body(server: Server) -> None:
        client, log = server.client(transport), Log()
        maps = client.for_kind(ConfigMap)
        async with InformerFactory(client=client) as factory:
            informer = factory.for_kind(ConfigMap, Selection(namespace="a", labels="selected=true"))
            informer.subscribe(log)
            await informer.synced.wait()
            await maps.create(config_map("elsewhere", "b", {"selected": "true"}))
            await maps.create(config_map("unmarked"))
            created = await maps.create(config_map("marked", labels={"selected": "true"}))
            await maps.patch("marked", {"metadata": {"labels": {"selected": "false"}}}, "a")
            await log.wait_until(lambda: len(log.notifications) == 2)
            assert log.notifications == [("add", "marked"), ("delete", "marked")]
            assert created.metadata.name == "marked"

    run(body)


@both_transports
def test_informer_of_metadata_only(transport: str) -> None:
    async def body(server: Server) -> None:
        client, log = server.client(transport), Log()
        await client.for_kind(ConfigMap).create(config_map("m", x="1"))
        async with InformerFactory(client=client) as factory:
            informer = factory.informer(builtin("configmaps"), metadata_only=True)
            informer.subscribe(log)
            await informer.synced.wait()
            assert isinstance(informer.lister.get("m", "a"), PartialObjectMetadata)
            await client.for_kind(ConfigMap).delete("m", "a")
            await log.wait_until(lambda: not log.known)

    run(body)


def test_indexes_and_listers() -> None:
    async def body(server: Server) -> None:
        client, log = server.client(), Log()
        maps = client.for_kind(ConfigMap)
        owner = OwnerReference(apiVersion="v1", kind="Namespace", name="n", uid="u1", controller=True)
        other = OwnerReference(apiVersion="v1", kind="Namespace", name="o", uid="u2")
        owned = config_map("owned", labels={"l": "1"})
        owned.metadata.ownerReferences = [owner, other]
        await maps.create(owned)
        await maps.create(config_map("free", "b", {"l": "2"}))
        async with InformerFactory(client=client) as factory:
            informer = factory.for_kind(ConfigMap)
            informer.subscribe(log)
            await informer.synced.wait()
            lister = informer.lister
            names = lambda objects: sorted(obj.metadata.name for obj in objects)  # noqa: E731
            assert names(lister.list("b")) == ["free"]
            assert names(lister.list(selector=labels.parse("l in (1,2)"))) == ["free", "owned"]
            assert names(lister.list("a", labels.parse("l=2"))) == []
            assert names(lister.find(by_owner, "u2")) == ["owned"]
            assert names(lister.find(by_controller, "u2")) == []
            assert names(lister.find(by_controller, "u1")) == ["owned"]
            await maps.patch("owned", {"metadata": {"ownerReferences": None}}, "a")
            await log.wait_until(lambda: len(log.notifications) == 3)
            assert names(lister.find(by_owner, "u2")) == []
            assert lister.values(by_owner) == []
            await maps.delete("free", "b")
            await log.wait_until(lambda: len(log.notifications) == 4)
            assert names(lister.list("b")) == []
            assert (len(lister), lister.keys()) == (1, [NamespacedName("a", "owned")])

    run(body)


def test_failing_handler_does_not_affect_other_handlers(caplog: pytest.LogCaptureFixture) -> None:
    async def body(server: Server) -> None:
        client, log = server.client(), Log()
        async with InformerFactory(client=client) as factory:
            informer = factory.for_kind(ConfigMap)
            informer.subscribe(_fail)
            informer.subscribe(log)
            await client.for_kind(ConfigMap).create(config_map("m"))
            await log.wait_until(lambda: len(log.notifications) == 1)

    run(body)
    assert "an informer event handler failed" in caplog.text


def _fail(old: Any, new: Any) -> None:
    raise RuntimeError("no")


def test_recreated_object_is_reported_as_deleted_and_added() -> None:
    """An interrupted watch may miss that an object was deleted and created again with the same name."""

    async def body(server: Server) -> None:
        client, log = server.client(), Log()
        transport = FaultyTransport(server.loopback, Random(1))
        transport.is_reliable = True
        watching = Client(transport=transport, clock=server.clock, component="test")
        informer: Informer[Any] = Informer(source=watching.for_kind(ConfigMap), config=FAST_RETRY)
        informer.subscribe(log)
        await client.for_kind(ConfigMap).create(config_map("m"))
        for _ in range(2):
            async with _running_informer(informer):
                await log.wait_until(lambda: bool(log.known))
                await informer.synced.wait()
                first = log.known[NamespacedName("a", "m")].metadata.uid
            await client.for_kind(ConfigMap).delete("m", "a")
            await client.for_kind(ConfigMap).create(config_map("m"))
        informer._reflector._version = ""
        async with _running_informer(informer):
            await log.wait_until(lambda: log.known[NamespacedName("a", "m")].metadata.uid != first)
        assert log.notifications[-2:] == [("delete", "m"), ("add", "m")]

    run(body)


@contextlib.asynccontextmanager
async def _running_informer(informer: Informer[Any]) -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        yield
        task.cancel()


@both_transports
@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "listed"])
@pytest.mark.parametrize("seed", range(4))
def test_no_event_is_missed_repeated_or_reordered_under_injected_faults(
    transport: str, streams: bool, seed: int
) -> None:
    """Objects are written at random while connections are cut and versions expire. The handler checks every
    notification, and in the end the informer has the objects of the server."""

    async def body(server: Server) -> None:
        random = Random(seed)
        faulty = FaultyTransport(
            server.transport(transport),
            Random(seed + 1),
            stream_error=None if streams else errors.invalid("ListOptions", "", []),
        )
        watching = Client(transport=faulty, clock=server.clock, component="test")
        maps, log = server.client().for_kind(ConfigMap), Log()
        async with InformerFactory(client=watching, config=FAST_RETRY) as factory:
            informer = factory.for_kind(ConfigMap)
            informer.subscribe(log)
            step = 0
            while step < 300 or faulty.cuts < 15 or faulty.expired < 2:
                step += 1
                await _write(maps, random, step)
                if random.random() < 0.1:
                    await asyncio.sleep(0.001)
            await informer.synced.wait()
            faulty.is_reliable = True
            await maps.create(config_map("last"))
            await log.wait_until(lambda: NamespacedName("a", "last") in log.known)
            server_has = {key_of(obj): obj for obj in (await maps.list()).items}
            assert {key_of(obj): obj for obj in informer.lister} == server_has
            assert log.known == server_has
            assert informer.fills > 1

    run(body)


@pytest.mark.soak
@both_transports
@pytest.mark.parametrize("seed", range(100, 160))
def test_soak_under_injected_faults(transport: str, seed: int) -> None:
    test_no_event_is_missed_repeated_or_reordered_under_injected_faults(transport, seed % 2 == 0, seed)


def test_informer_resumes_after_its_watch_was_too_slow() -> None:
    """The server closes a watch with too many unread events."""

    async def body(server: Server) -> None:
        client, log = server.client(), Log()
        async with InformerFactory(client=client, config=FAST_RETRY) as factory:
            informer = factory.for_kind(ConfigMap)
            informer.subscribe(log)
            await informer.synced.wait()
            cacher = server.registry.open_store(builtin("configmaps")).cacher
            (watcher,) = cacher._state.routes.watchers()
            watcher.end(TooSlow("too slow"))
            await client.for_kind(ConfigMap).create(config_map("late"))
            await log.wait_until(lambda: NamespacedName("a", "late") in log.known)
            assert informer.fills == 1, "the informer resumes without a new list"

    run(body)


async def _write(maps: ResourceClient[ConfigMap], random: Random, step: int) -> None:
    name, namespace = f"m{random.randrange(12)}", random.choice("ab")
    try:
        match random.randrange(4):
            case 0 | 1:
                await maps.create(config_map(name, namespace, x=str(step)))
            case 2:
                await maps.patch(name, {"data": {"x": str(step)}}, namespace)
            case _:
                await maps.delete(name, namespace)
    except (errors.AlreadyExists, errors.NotFound):
        pass


def test_initial_list_of_several_pages_is_complete() -> None:
    count = 2 * PAGE_SIZE + 1

    async def check(server: Server, transport: str, stream_error: errors.ApiError | None) -> None:
        faulty = FaultyTransport(server.transport(transport), Random(0), stream_error=stream_error)
        faulty.is_reliable = True
        log = Log()
        async with InformerFactory(client=Client(transport=faulty, clock=server.clock, component="test")) as factory:
            informer = factory.for_kind(ConfigMap)
            informer.subscribe(log)
            await informer.synced.wait()
            assert len(informer.lister) == len(log.notifications) == count, (transport, stream_error)
        assert log.faults == []

    async def body(server: Server) -> None:
        for number in range(count):
            await server.client().for_kind(ConfigMap).create(config_map(f"m{number:04}"))
        for transport in TRANSPORTS:
            for stream_error in (None, errors.invalid("ListOptions", "", [])):
                await check(server, transport, stream_error)

    run(body)


@pytest.mark.parametrize(
    "error",
    [
        errors.invalid("ListOptions", "", []),
        errors.BadRequest("unknown parameter"),
        errors.InternalError("the required storage feature RequestWatchProgress is disabled"),
        errors.Forbidden("cannot watch"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_rejected_streaming_list_is_replaced_by_a_list(error: errors.ApiError) -> None:
    async def body(server: Server) -> None:
        await server.client().for_kind(ConfigMap).create(config_map("x"))
        transport = FaultyTransport(server.transport("loopback"), Random(0), stream_error=error)
        transport.is_reliable = True
        client = Client(transport=transport, clock=server.clock, component="test")
        async with asyncio.timeout(5), InformerFactory(client=client, config=FAST_RETRY) as factory:
            informer = factory.for_kind(ConfigMap)
            await informer.synced.wait()
            assert [obj.metadata.name for obj in informer.lister] == ["x"]
            assert transport.streaming_lists == 1

    run(body)


def test_informer_waits_until_its_resource_is_served() -> None:
    async def body(server: Server) -> None:
        transport = FaultyTransport(server.transport("loopback"), Random(0))
        transport.is_reliable = True
        client = Client(transport=transport, clock=server.clock, component="test")
        namespaces = builtin("namespaces")
        server.scheme.remove(namespaces)
        async with InformerFactory(client=client, config=FAST_RETRY) as factory:
            informer = factory.for_kind(Namespace)
            await eventually(lambda: transport.streaming_lists >= 3)
            assert not informer.synced.is_set()
            server.scheme.add(namespaces)
            await informer.synced.wait()

    run(body)
