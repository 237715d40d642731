"""Concurrent writers on each backend, and several servers with one store: no write is lost, no stale write is accepted,
and no stale cache shows in a response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

pytest.register_assert_rewrite("sampan.testing.registry_conformance")

from sampan.apiserver.pipeline import Pipeline  # noqa: E402
from sampan.host.clock import RealClock  # noqa: E402
from sampan.storage.backend import Backend  # noqa: E402
from sampan.storage.sqlite import SqliteBackend  # noqa: E402
from sampan.testing.registry_conformance import CHECKS, CONCURRENCY, Api, Check, run  # noqa: E402
from tests.apiserver.registry.lagging_backend import LaggingBackend, open_lagging_backend  # noqa: E402
from tests.apiserver.registry.subjects import RoundRobin, config_maps, gadgets, memory_backend, open_pipelines  # noqa: E402


@pytest.mark.parametrize("check", CONCURRENCY, ids=lambda check: check.__name__)
def test_concurrent_writers_on_sqlite(check: Check, tmp_path: Path) -> None:
    run(check, config_maps(lambda: SqliteBackend(path=tmp_path / "store.db", clock=RealClock())))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_stale_cache_does_not_show_in_responses(check: Check) -> None:
    run(check, gadgets(lambda: open_lagging_backend(0.002, memory_backend())))


@asynccontextmanager
async def _two_servers(lag_s: float) -> AsyncIterator[Pipeline]:
    async with open_pipelines(2, lambda: open_lagging_backend(lag_s, memory_backend())) as servers:
        yield RoundRobin(servers)  # type: ignore[misc]


@pytest.mark.parametrize("lag_s", [0.0, 0.003], ids=["no lag", "lag"])
@pytest.mark.parametrize("check", CONCURRENCY, ids=lambda check: check.__name__)
def test_two_servers_on_one_store(check: Check, lag_s: float) -> None:
    run(check, replace(config_maps(), open=lambda: _two_servers(lag_s)))


Work = Callable[[Api, Api, LaggingBackend], Awaitable[None]]


def _run_with_stale_caches(work: Work) -> None:
    """Run `work` on two servers whose caches hold `a`, which has a finalizer, and `free`, and then get no events."""

    async def main() -> None:
        stores: list[LaggingBackend] = []

        @asynccontextmanager
        async def store() -> AsyncIterator[Backend]:
            async with open_lagging_backend(0, memory_backend()) as backend:
                assert isinstance(backend, LaggingBackend)
                stores.append(backend)
                yield backend

        subject = config_maps()
        async with open_pipelines(2, store) as (first_pipeline, second_pipeline):
            first, second = Api(first_pipeline, subject), Api(second_pipeline, subject)
            await first.create_object("a", 1, finalizers=["example.com/wait"])
            await first.create_object("free", 1)
            assert (await second.get("free")).code == 200
            stores[0].held = True
            await work(first, second, stores[0])
            stores[0].release()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_write_finds_object_created_by_another_server() -> None:
    async def work(first: Api, second: Api, store: LaggingBackend) -> None:
        await first.create_object("b", 1)
        assert (await second.merge("b", second.subject.content(2))).code == 200
        assert (await second.delete("b")).code == 200

    _run_with_stale_caches(work)


def test_write_to_object_removed_by_another_server_gets_404() -> None:
    async def work(first: Api, second: Api, store: LaggingBackend) -> None:
        await first.create_object("b", 1)
        await first.delete("b")
        for reply in (
            await second.merge("b", {}),
            await second.delete("b"),
            await second.put("b", first.subject.build_object("b")),
        ):
            assert reply.code == 404, reply.value

    _run_with_stale_caches(work)


def test_resource_version_newer_than_the_cache_is_accepted() -> None:
    async def work(first: Api, second: Api, store: LaggingBackend) -> None:
        newer = (await first.merge("a", first.subject.content(2))).value
        reply = await second.put("a", {**newer, **second.subject.content(3)})
        assert reply.code == 200, reply.value
        assert second.subject.number(reply.value) == 3, reply.value
        precondition = {"preconditions": {"resourceVersion": reply.version}}
        assert (await first.delete("a", precondition)).code == 200

    _run_with_stale_caches(work)


def test_stale_resource_version_is_rejected_even_if_the_cache_has_it() -> None:
    async def work(first: Api, second: Api, store: LaggingBackend) -> None:
        old = (await first.merge("a", {"metadata": {"labels": {"l": "1"}}}, "dryRun=All")).value
        assert (await first.merge("a", first.subject.content(2))).code == 200
        assert (await second.put("a", {**old, **second.subject.content(3)})).code == 409
        assert (
            await second.delete("a", {"preconditions": {"resourceVersion": old["metadata"]["resourceVersion"]}})
        ).code == 409

    _run_with_stale_caches(work)


def test_patch_that_changes_nothing_in_a_stale_cache_is_still_written() -> None:
    async def work(first: Api, second: Api, store: LaggingBackend) -> None:
        assert (await first.merge("a", first.subject.content(2))).code == 200
        reverted = await second.merge("a", second.subject.content(1))
        assert reverted.code == 200, reverted.value
        assert second.subject.number(reverted.value) == 1, reverted.value
        store.release()
        assert second.subject.number((await second.get("a")).value) == 1

    _run_with_stale_caches(work)


def test_delete_keeps_first_finalizer_that_the_stale_cache_lacks() -> None:
    async def work(first: Api, second: Api, store: LaggingBackend) -> None:
        assert (await first.merge("free", {"metadata": {"finalizers": ["example.com/wait"]}})).code == 200
        marked = await second.delete("free")
        assert marked.value["metadata"]["deletionTimestamp"], marked.value
        assert marked.value["metadata"]["finalizers"] == ["example.com/wait"]

    _run_with_stale_caches(work)


def test_delete_keeps_additional_finalizer_that_the_stale_cache_lacks() -> None:
    async def work(first: Api, second: Api, store: LaggingBackend) -> None:
        finalizers = {"metadata": {"finalizers": ["example.com/wait", "example.com/more"]}}
        assert (await first.merge("a", finalizers)).code == 200
        marked = await second.delete("a")
        assert marked.value["metadata"]["finalizers"] == finalizers["metadata"]["finalizers"], marked.value
        done = await first.merge("a", {"metadata": {"finalizers": None}})
        assert done.code == 200
        assert (await second.delete("a")).code == 404

    _run_with_stale_caches(work)
