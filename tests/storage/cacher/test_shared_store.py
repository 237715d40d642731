"""Several API servers on one store: what one writes, all others show, completely and in order."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from sampan.machinery.clock import RealClock
from sampan.storage.backend import Backend, Conflict
from sampan.storage.cacher import ADDED, DELETED, Cacher, ListQuery, WatchQuery
from sampan.storage.memory import MemoryBackend
from tests.storage.cacher.world import PODS, labelled, pod, running, where

Open = Callable[[Path], AbstractAsyncContextManager[list[Backend]]]


@asynccontextmanager
async def memory(_: Path) -> AsyncIterator[list[Backend]]:
    async with MemoryBackend(clock=RealClock()) as backend:
        yield [backend, backend]


STORES: list[Open] = [memory]


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.__name__)
def test_all_show_what_one_wrote(store: Open, tmp_path: Path) -> None:
    asyncio.run(_all_show_what_one_wrote(store, tmp_path))


async def _all_show_what_one_wrote(store: Open, path: Path) -> None:
    async with store(path) as backends, AsyncExitStack() as stack:
        cachers = [await stack.enter_async_context(running(backend)) for backend in backends]
        for number in range(30):
            writer, reader = (0, 1) if number % 2 else (1, 0)
            revision = await backends[writer].put(PODS.key("default", f"p{number}"), pod(f"p{number}"))
            item = await cachers[reader].get("default", f"p{number}")
            assert item is not None
            assert item.revision == revision
            assert len((await cachers[reader].list(ListQuery())).items) == number + 1
            assert (await cachers[writer].list(ListQuery(resource_version=str(revision)))).revision >= revision


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.__name__)
def test_watchers_miss_repeat_and_reorder_nothing(store: Open, tmp_path: Path) -> None:
    asyncio.run(_miss_nothing(store, tmp_path))


WRITES = 150


async def _miss_nothing(store: Open, path: Path) -> None:
    async with store(path) as backends, AsyncExitStack() as stack:
        cachers = [await stack.enter_async_context(running(backend)) for backend in backends]
        async with asyncio.TaskGroup() as tasks:
            for number, backend in enumerate(backends):
                tasks.create_task(_write(backend, seed=number))
            readers = [tasks.create_task(_follow(cacher, color)) for cacher in cachers for color in ("", "red")]
            await asyncio.sleep(0)
        stories = [reader.result() for reader in readers]
        final = [dict(_state(await cacher.list(ListQuery(where("default"))))) for cacher in cachers]
        assert final[0] == final[1]
        for cacher, color, (state, revisions) in zip(
            [cachers[0], cachers[0], cachers[1], cachers[1]], ["", "red"] * 2, stories, strict=True
        ):
            labels = labelled(color=color) if color else None
            assert state == dict(_state(await cacher.list(ListQuery(where("default", labels=labels)))))
            assert revisions == sorted(set(revisions))
        assert stories[0] == stories[2] or stories[0][0] == stories[2][0]


def _state(result: object) -> list[tuple[str, int]]:
    return [(item.name, item.revision) for item in result.items]  # type: ignore[attr-defined]


async def _write(backend: Backend, seed: int) -> None:
    """Changes that end with an object `end-N` for everyone to see."""
    chance = random.Random(seed)
    for _ in range(WRITES):
        name = chance.choice("abcdefgh")
        try:
            if chance.random() < 0.3:
                await backend.delete(PODS.key("default", name))
            else:
                color = chance.choice(["red", "blue"])
                await backend.put(PODS.key("default", name), pod(name, labels={"color": color}))
        except Conflict:
            pass
    await backend.put(PODS.key("default", f"end-{seed}"), pod(f"end-{seed}", labels={"color": "red"}))


async def _follow(cacher: Cacher, color: str) -> tuple[dict[str, int], list[int]]:
    """The state that a client builds from its list and events, and the revisions of the events."""
    selection = where("default", labels=labelled(color=color) if color else None)
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
