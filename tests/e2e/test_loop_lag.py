"""Nothing holds the server's event loop: others get their turn while large lists and many watches are served."""

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from sampan.testing import Cluster
from tests.apiserver.http.wire import Wire, request

MAPS = "/api/v1/namespaces/default/configmaps"
COUNT, WATCHERS = 4000, 40
LONGEST_S = 0.05
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
LISTS: dict[str, dict[str, str]] = {
    "as it is stored": {},
    "for people": {"User-Agent": "curl/8"},
    "as a table": {"Accept": TABLE},
    "in protobuf": {"Accept": "application/vnd.kubernetes.protobuf"},
    "metadata alone": {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"},
    "packed": {"Accept-Encoding": "gzip"},
}


async def _longest_hold(until: asyncio.Event) -> float:
    """The most processor time that went by between two turns of this task: what others on this machine do does not
    count."""
    longest = 0.0
    while not until.is_set():
        before = time.thread_time()
        await asyncio.sleep(0.002)
        longest = max(longest, time.thread_time() - before)
    return longest


async def _fill(port: int) -> None:
    async with Wire(port) as wire:
        for number in range(COUNT):
            value = {"metadata": {"name": f"m{number:05d}"}, "data": {"x": "y" * 1000}}
            assert (await wire.ask("POST", MAPS, value)).code == 201


async def _list(port: int, headers: dict[str, str]) -> None:
    async with Wire(port) as wire:
        for _ in range(3):
            answer = await wire.ask("GET", f"{MAPS}?resourceVersion=0", headers=headers)
            assert answer.code == 200


async def _watch(port: int) -> None:
    async with Wire(port) as wire:
        wire.send(request("GET", f"{MAPS}?watch=1&resourceVersion=0"))
        assert (await wire.head())[0] == 200
        seen = 0
        async for chunk in wire.chunks():
            seen += chunk.count(b'"type":"ADDED"')
            if seen == COUNT:
                return


@pytest.fixture(scope="module")
def full() -> Iterator[Cluster]:
    with _full() as cluster:
        yield cluster


@contextmanager
def _full() -> Iterator[Cluster]:
    with Cluster(insecure=True, controllers=()) as cluster:
        asyncio.run(_prepare(_port(cluster)))
        yield cluster


async def _prepare(port: int) -> None:
    """Modules that are loaded when a form is first asked for are loaded, and then there is something to list."""
    for headers in LISTS.values():
        await _list(port, headers)
    await _fill(port)


def _port(cluster: Cluster) -> int:
    return urlsplit(cluster.insecure_url).port or 0


def _measure(cluster: Cluster, work: Callable[[int], Coroutine[Any, Any, None]]) -> float:
    """The longest hold of the cluster's loop while the work is done from another. What the test run has piled up in
    this process is kept from the collector meanwhile, as a server does with what its start has made."""
    gc.collect()
    gc.freeze()
    try:
        probe, stop = cluster.run(_begin())
        asyncio.run(work(_port(cluster)))
        return cluster.run(_end(probe, stop))
    finally:
        gc.unfreeze()


def _is_never_held(cluster: Cluster, work: Callable[[int], Coroutine[Any, Any, None]]) -> bool:
    """What the code does shows every time, what the machine does (a processor that is taken away counts as used) only
    sometimes: one good round of three, the others with clusters of their own, is enough."""
    if _measure(cluster, work) < LONGEST_S:
        return True
    for _ in range(2):
        with _full() as fresh:
            if _measure(fresh, work) < LONGEST_S:
                return True
    return False


async def _begin() -> tuple[asyncio.Task[float], asyncio.Event]:
    stop = asyncio.Event()
    return asyncio.create_task(_longest_hold(stop)), stop


async def _end(probe: asyncio.Task[float], stop: asyncio.Event) -> float:
    stop.set()
    return await probe


@pytest.mark.parametrize("form", LISTS)
def test_large_lists_go_out_in_pieces(full: Cluster, form: str) -> None:
    async def work(port: int) -> None:
        await asyncio.gather(*(_list(port, LISTS[form]) for _ in range(2)))

    assert _is_never_held(full, work)


def test_many_watches_that_begin_at_once(full: Cluster) -> None:
    async def work(port: int) -> None:
        await asyncio.gather(*(_watch(port) for _ in range(WATCHERS)))

    assert _is_never_held(full, work)
