"""Many writers on every store, and several servers on one: nothing is lost, nothing old is accepted, and what an old
cache says is not answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

pytest.register_assert_rewrite("sampan.testing.registry_conformance")

from sampan.apiserver.pipeline import Pipeline  # noqa: E402
from sampan.machinery.clock import RealClock  # noqa: E402
from sampan.storage.backend import Backend  # noqa: E402
from sampan.storage.sqlite import SqliteBackend  # noqa: E402
from sampan.testing.registry_conformance import CHECKS, CONCURRENCY, Api, Check, run  # noqa: E402
from tests.apiserver.registry.lagging_backend import LaggingBackend, lagging  # noqa: E402
from tests.apiserver.registry.subjects import InTurn, config_maps, gadgets, memory, pipelines  # noqa: E402


@pytest.mark.parametrize("check", CONCURRENCY, ids=lambda check: check.__name__)
def test_writers_on_sqlite(check: Check, tmp_path: Path) -> None:
    run(check, config_maps(lambda: SqliteBackend(path=tmp_path / "store.db", clock=RealClock())))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_cache_that_is_behind_shows_in_no_answer(check: Check) -> None:
    run(check, gadgets(lambda: lagging(0.002, memory())))


@asynccontextmanager
async def _two_servers(lag_s: float) -> AsyncIterator[Pipeline]:
    async with pipelines(2, lambda: lagging(lag_s, memory())) as servers:
        yield InTurn(servers)  # type: ignore[misc]


@pytest.mark.parametrize("lag_s", [0.0, 0.003], ids=["close", "behind"])
@pytest.mark.parametrize("check", CONCURRENCY, ids=lambda check: check.__name__)
def test_two_servers_on_one_store(check: Check, lag_s: float) -> None:
    run(check, replace(config_maps(), open=lambda: _two_servers(lag_s)))


Scene = Callable[[Api, Api, LaggingBackend], Awaitable[None]]


def _held(scene: Scene) -> None:
    """Two servers whose caches know `a`, with a finalizer, and `free`, without, and hear nothing from now on."""

    async def play() -> None:
        stores: list[LaggingBackend] = []

        @asynccontextmanager
        async def store() -> AsyncIterator[Backend]:
            async with lagging(0, memory()) as backend:
                assert isinstance(backend, LaggingBackend)
                stores.append(backend)
                yield backend

        subject = config_maps()
        async with pipelines(2, store) as (one_pipeline, two):
            first, second = Api(one_pipeline, subject), Api(two, subject)
            await first.created("a", 1, finalizers=["example.com/wait"])
            await first.created("free", 1)
            assert (await second.get("free")).code == 200
            stores[0].held = True
            await scene(first, second, stores[0])
            stores[0].release()

    asyncio.run(asyncio.wait_for(play(), 60))


def test_an_object_that_another_server_made_is_found() -> None:
    async def scene(first: Api, second: Api, store: LaggingBackend) -> None:
        await first.created("b", 1)
        assert (await second.merge("b", second.subject.content(2))).code == 200
        assert (await second.delete("b")).code == 200

    _held(scene)


def test_an_object_that_another_server_removed_is_missed() -> None:
    async def scene(first: Api, second: Api, store: LaggingBackend) -> None:
        await first.created("b", 1)
        await first.delete("b")
        for reply in (
            await second.merge("b", {}),
            await second.delete("b"),
            await second.put("b", first.subject.new("b")),
        ):
            assert reply.code == 404, reply.value

    _held(scene)


def test_a_version_that_only_the_store_has_is_no_conflict() -> None:
    async def scene(first: Api, second: Api, store: LaggingBackend) -> None:
        newer = (await first.merge("a", first.subject.content(2))).value
        reply = await second.put("a", {**newer, **second.subject.content(3)})
        assert reply.code == 200, reply.value
        assert second.subject.number(reply.value) == 3, reply.value
        precondition = {"preconditions": {"resourceVersion": reply.version}}
        assert (await first.delete("a", precondition)).code == 200

    _held(scene)


def test_an_old_version_is_refused_though_the_cache_has_it() -> None:
    async def scene(first: Api, second: Api, store: LaggingBackend) -> None:
        old = (await first.merge("a", {"metadata": {"labels": {"l": "1"}}}, "dryRun=All")).value
        assert (await first.merge("a", first.subject.content(2))).code == 200
        assert (await second.put("a", {**old, **second.subject.content(3)})).code == 409
        assert (
            await second.delete("a", {"preconditions": {"resourceVersion": old["metadata"]["resourceVersion"]}})
        ).code == 409

    _held(scene)


def test_a_change_that_is_none_to_an_old_cache_is_made() -> None:
    async def scene(first: Api, second: Api, store: LaggingBackend) -> None:
        assert (await first.merge("a", first.subject.content(2))).code == 200
        back = await second.merge("a", second.subject.content(1))
        assert back.code == 200, back.value
        assert second.subject.number(back.value) == 1, back.value
        store.release()
        assert second.subject.number((await second.get("a")).value) == 1

    _held(scene)


def test_a_first_finalizer_that_the_cache_does_not_know_is_kept() -> None:
    async def scene(first: Api, second: Api, store: LaggingBackend) -> None:
        assert (await first.merge("free", {"metadata": {"finalizers": ["example.com/wait"]}})).code == 200
        marked = await second.delete("free")
        assert marked.value["metadata"]["deletionTimestamp"], marked.value
        assert marked.value["metadata"]["finalizers"] == ["example.com/wait"]

    _held(scene)


def test_a_finalizer_that_the_cache_does_not_know_is_kept() -> None:
    async def scene(first: Api, second: Api, store: LaggingBackend) -> None:
        finalizers = {"metadata": {"finalizers": ["example.com/wait", "example.com/more"]}}
        assert (await first.merge("a", finalizers)).code == 200
        marked = await second.delete("a")
        assert marked.value["metadata"]["finalizers"] == finalizers["metadata"]["finalizers"], marked.value
        done = await first.merge("a", {"metadata": {"finalizers": None}})
        assert done.code == 200
        assert (await second.delete("a")).code == 404

    _held(scene)
