"""Several API servers on one store: each shows all writes of the others, completely and in order."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import pytest

from sampan.host.clock import RealClock
from sampan.storage.backend import Backend, StoreConflict
from sampan.storage.cacher import ADDED, DELETED, Cacher, ListQuery, ListResult, VersionExpired, WatchQuery
from sampan.storage.memory import MemoryBackend
from sampan.storage.sqlite import SqliteBackend
from tests.storage.cacher.cacher_store import PODS, match_labels, pod, running_cacher, select_objects
from tests.storage.etcd_server import NO_ETCD, Member, find, running_member

Open = Callable[[], AbstractAsyncContextManager[list[Backend]]]


@asynccontextmanager
async def _one_backend_twice(backend: Backend) -> AsyncIterator[list[Backend]]:
    async with backend:
        yield [backend, backend]


@asynccontextmanager
async def _two_connections(member: Member, prefix: str) -> AsyncIterator[list[Backend]]:
    from sampan.storage.etcd import EtcdBackend

    async with AsyncExitStack() as stack:
        backends = [EtcdBackend(endpoints=[member.client_url], prefix=prefix) for _ in range(2)]
        yield [await stack.enter_async_context(backend) for backend in backends]


@pytest.fixture(scope="module", params=["memory", "sqlite", "etcd"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Yield a function that opens a new store."""
    directory, numbers = tmp_path_factory.mktemp("store"), itertools.count()
    match request.param:
        case "memory":
            yield lambda: _one_backend_twice(MemoryBackend(clock=RealClock()))
        case "sqlite":
            yield lambda: _one_backend_twice(
                SqliteBackend(path=directory / f"state{next(numbers)}.db", clock=RealClock())
            )
        case "etcd":
            if find("etcd") is None:
                pytest.skip(NO_ETCD)
            with running_member(directory) as member:
                yield lambda: _two_connections(member, prefix=f"/{next(numbers)}")


def test_writes_of_one_server_are_read_on_another_server(store: Open) -> None:
    asyncio.run(_check_writes_are_read(store))


async def _check_writes_are_read(store: Open) -> None:
    async with store() as backends, AsyncExitStack() as stack:
        cachers = [await stack.enter_async_context(running_cacher(backend)) for backend in backends]
        for number in range(30):
            writer, reader = (0, 1) if number % 2 else (1, 0)
            revision = await backends[writer].put(PODS.key("default", f"p{number}"), pod(f"p{number}"))
            item = await cachers[reader].get("default", f"p{number}")
            assert item is not None
            assert item.revision == revision
            assert len((await cachers[reader].list(ListQuery())).items) == number + 1
            assert (await cachers[writer].list(ListQuery(resource_version=str(revision)))).revision >= revision


def test_watchers_see_each_event_once_and_in_order(store: Open) -> None:
    asyncio.run(_check_watchers(store))


WRITES = 150


async def _check_watchers(store: Open) -> None:
    async with store() as backends, AsyncExitStack() as stack:
        cachers = [await stack.enter_async_context(running_cacher(backend)) for backend in backends]
        async with asyncio.TaskGroup() as tasks:
            for number, backend in enumerate(backends):
                tasks.create_task(_write(backend, seed=number))
            readers = [tasks.create_task(_follow(cacher, color)) for cacher in cachers for color in ("", "red")]
            await asyncio.sleep(0)
        observations = [reader.result() for reader in readers]
        final = [dict(_state(await cacher.list(ListQuery(select_objects("default"))))) for cacher in cachers]
        assert final[0] == final[1]
        for cacher, color, (state, revisions) in zip(
            [cachers[0], cachers[0], cachers[1], cachers[1]], ["", "red"] * 2, observations, strict=True
        ):
            labels = match_labels(color=color) if color else None
            assert state == dict(_state(await cacher.list(ListQuery(select_objects("default", labels=labels)))))
            assert revisions == sorted(set(revisions))
        assert observations[0][0] == observations[2][0] == final[0]


def _state(result: ListResult) -> list[tuple[str, int]]:
    return [(item.name, item.revision) for item in result.items]


async def _write(backend: Backend, seed: int) -> None:
    """Make random changes, and then create an object `end-N`, which all readers wait for."""
    chance = random.Random(seed)
    for _ in range(WRITES):
        name = chance.choice("abcdefgh")
        try:
            if chance.random() < 0.3:
                await backend.delete(PODS.key("default", name))
            else:
                color = chance.choice(["red", "blue"])
                await backend.put(PODS.key("default", name), pod(name, labels={"color": color}))
        except StoreConflict:
            pass
    await backend.put(PODS.key("default", f"end-{seed}"), pod(f"end-{seed}", labels={"color": "red"}))


async def _follow(cacher: Cacher, color: str) -> tuple[dict[str, int], list[int]]:
    """Return the state that a client builds from its list and events, and the revisions of the events."""
    selection = select_objects("default", labels=match_labels(color=color) if color else None)
    first = await cacher.list(ListQuery(selection))
    state, revisions, ends = dict(_state(first)), list[int](), 0
    ends = sum(name.startswith("end-") for name in state)
    async with cacher.watch(WatchQuery(selection, str(first.revision))) as watcher:
        while ends < 2:
            for event in await anext(watcher):
                name = event.item.name
                assert (event.type == ADDED) == (name not in state)
                revisions.append(event.revision)
                ends += name.startswith("end-")
                if event.type == DELETED:
                    del state[name]
                else:
                    state[name] = event.revision
    return state, revisions


def test_list_can_continue_on_another_server(store: Open) -> None:
    """The other server has its own history, or none for the revision of the list."""
    asyncio.run(_check_continued_list(store))


async def _check_continued_list(store: Open) -> None:
    async with store() as backends, AsyncExitStack() as stack:
        first = await stack.enter_async_context(running_cacher(backends[0]))
        for name in "abcdefg":
            revision = await backends[0].put(PODS.key("default", name), pod(name))
        page = await first.list(ListQuery(select_objects("default"), limit=3))
        assert (page.revision, page.remaining) == (revision, 4)
        for name in "df":
            await backends[0].delete(PODS.key("default", name))
        await backends[0].put(PODS.key("default", "dd"), pod("dd"))
        second = await stack.enter_async_context(running_cacher(backends[1]))
        query = ListQuery(select_objects("default"), limit=2, continue_token=page.continue_token)
        rest = await second.list(query)
        assert ([item.name for item in rest.items], rest.revision, rest.remaining) == (["d", "e"], revision, 2)
        same = await first.list(query)
        assert (_state(same), same.continue_token) == (_state(rest), rest.continue_token)
        old = await second.list(ListQuery(select_objects("default"), str(revision), match="Exact"))
        assert [item.name for item in old.items] == list("abcdefg")
        await backends[1].compact(await backends[1].current_revision())
        third = await stack.enter_async_context(running_cacher(backends[1]))
        with pytest.raises(VersionExpired, match="too old to display a consistent list result"):
            await third.list(query)
