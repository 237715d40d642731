"""The watch cache: the cost of a list, of an event, of its delivery to watchers, and of a cached pod."""

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import uvloop

from benchmarks import Row
from sampan.api.selectors.fields import FieldTerm
from sampan.host.clock import RealClock
from sampan.storage.backend import EventBatch, StoreEvent
from sampan.storage.cacher import CachedField, CachedResource, Cacher, ListQuery, ObjectSelection, Watcher, WatchQuery
from sampan.storage.memory import MemoryBackend

LIST_PODS = 10_000
WATCHERS = 1_000
SELECTABLE = (
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
PODS = CachedResource(
    prefix="/registry/pods/",
    kind="Pod",
    api_version="v1",
    plural="pods",
    fields=(
        CachedField("spec.nodeName", ("spec.nodeName",), indexed=True),
        *(CachedField(label, (label,)) for label in SELECTABLE),
    ),
)


@dataclass(frozen=True)
class HasLabel:
    label: str
    value: str

    def matches(self, labels: Any) -> bool:
        return bool(labels.get(self.label) == self.value)

    def required_labels(self) -> dict[str, str]:
        return {self.label: self.value}


def pod(number: int, *, node: str = "", version: int = 0) -> bytes:
    """About 3.5 KB, the size of a running pod."""
    condition = {"lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z", "status": "True"}
    owned: dict[str, Any] = {f"f:field{i}": {".": {}, "f:value": {}} for i in range(24)}
    return msgspec.json.encode(
        {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": f"web-7d4b9c6f5d-{number:05}",
                "generateName": "web-7d4b9c6f5d-",
                "namespace": f"team-{number % 50}",
                "uid": f"00000000-0000-0000-0000-{number:012}",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"app": f"app-{number % 200}", "pod-template-hash": "7d4b9c6f5d", "tier": "front"},
                "annotations": {"note": str(version)},
                "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": owned}}],
            },
            "spec": {
                "nodeName": node or f"node-{number % 500}",
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "serviceAccountName": "default",
                "containers": [
                    {
                        "name": f"c{i}",
                        "image": "registry.example.com/team/web:1.2.3",
                        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                        "env": [{"name": f"VARIABLE_{n}", "value": "some text of some length"} for n in range(13)],
                    }
                    for i in range(2)
                ],
            },
            "status": {
                "phase": "Running",
                "podIP": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
                "conditions": [
                    {**condition, "type": kind} for kind in ("PodScheduled", "Initialized", "Ready", "ContainersReady")
                ],
            },
        }
    )


def key(number: int) -> str:
    return PODS.key(f"team-{number % 50}", f"web-7d4b9c6f5d-{number:05}")


def rows() -> Iterator[Row]:
    yield from uvloop.run(_measured())
    yield _memory()


async def _measured() -> list[Row]:
    async with _FilledCacher(LIST_PODS) as feed:
        return [
            *await _lists(feed.cacher),
            await _apply(feed),
            await _fan_out(feed, "matching", lambda _: ObjectSelection(), 1.0),
            *[await _others(feed, name, selection) for name, selection in _ELSEWHERE.items()],
            await _gets(feed.cacher),
        ]


class _FilledCacher:
    """A cacher over a store with pods, and a way to give it events as its store would."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.backend = MemoryBackend(clock=RealClock())
        self.cacher = Cacher(backend=self.backend, shape=PODS, decode=msgspec.json.decode)
        self._tasks = asyncio.TaskGroup()
        self.revision = 0

    async def __aenter__(self) -> "_FilledCacher":
        await self.backend.__aenter__()
        for number in range(self.count):
            await self.backend.put(key(number), pod(number))
        await self._tasks.__aenter__()
        self._running = self._tasks.create_task(self.cacher.run())
        await self.cacher.wait_ready()
        self.revision = self.cacher.revision
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._running.cancel()
        await self._tasks.__aexit__(None, None, None)
        await self.backend.__aexit__(*exc)

    def batches(self, count: int) -> list[EventBatch]:
        """Status changes of pods, one in each batch."""
        batches = []
        for n in range(count):
            self.revision += 1
            event = StoreEvent(self.revision, key(n % self.count), pod(n % self.count, version=self.revision), 1)
            batches.append(EventBatch([event], self.revision))
        return batches

    def apply(self, batch: EventBatch) -> None:
        self.cacher._state.apply(batch)


def _best(measure: Callable[[], float], tries: int) -> float:
    return min(measure() for _ in range(tries))


async def _lists(cacher: Cacher) -> list[Row]:
    async def whole() -> float:
        start = time.perf_counter()
        size = sum([len(chunk) for chunk in (await cacher.list(ListQuery())).chunks()])
        took = time.perf_counter() - start
        assert size > LIST_PODS * 3_000
        return took

    async def one_node() -> float:
        query = ListQuery(ObjectSelection(fields=(FieldTerm("spec.nodeName", "node-7"),)))
        start = time.perf_counter()
        listed = await cacher.list(query)
        took = time.perf_counter() - start
        assert len(listed.items) == LIST_PODS // 500
        return took

    async def one_label() -> float:
        start = time.perf_counter()
        listed = await cacher.list(ListQuery(ObjectSelection(labels=HasLabel("app", "app-7"))))
        took = time.perf_counter() - start
        assert len(listed.items) == LIST_PODS // 200
        return took

    async def page() -> float:
        start = time.perf_counter()
        size = len((await cacher.list(ListQuery(limit=500))).join_chunks())
        took = time.perf_counter() - start
        assert size
        return took

    return [
        Row("LIST of 10,000 pods of 3.5 KB, in chunks", 1e3 * await _least(whole), "ms", 8.0),
        Row("LIST of the first 500 of 10,000", 1e3 * await _least(page), "ms"),
        Row("LIST of the 20 pods of one node", 1e6 * await _least(one_node), "us"),
        Row("LIST of the 50 pods with a label", 1e6 * await _least(one_label), "us"),
    ]


async def _least(measure: Callable[[], Awaitable[float]], tries: int = 20) -> float:
    return min([await measure() for _ in range(tries)])


async def _apply(feed: _FilledCacher) -> Row:
    selections = [
        ObjectSelection(),
        ObjectSelection("team-1"),
        ObjectSelection(fields=(FieldTerm("spec.nodeName", "node-1"),)),
        ObjectSelection(labels=HasLabel("app", "app-1")),
    ]
    watchers = [await _open(feed, selection) for selection in selections]

    def measure() -> float:
        batches = feed.batches(1000)
        start = time.perf_counter()
        for batch in batches:
            feed.apply(batch)
        took = time.perf_counter() - start
        for watcher in watchers:
            watcher.pop_ready()
        return took / len(batches)

    row = Row("apply one event, 4 watchers", 1e6 * _best(measure, 5), "us", 15.0)
    for watcher in watchers:
        await watcher.__aexit__(None, None, None)
    return row


async def _fan_out(feed: _FilledCacher, name: str, selection: Callable[[int], ObjectSelection], goal_ms: float) -> Row:
    """All watchers idle, waiting for the event."""
    best = float("inf")
    async with asyncio.TaskGroup() as tasks:
        watchers = [await _open(feed, selection(n)) for n in range(WATCHERS)]
        plain = _best(lambda: _one(feed), 20)
        readers = [tasks.create_task(_read(watcher)) for watcher in watchers]
        for _ in range(20):
            await _all_idle(watchers)
            best = min(best, _one(feed))
        for watcher in watchers:
            watcher.end()
        for reader in readers:
            await reader
    for watcher in watchers:
        await watcher.__aexit__(None, None, None)
    note = f"{1e3 * plain:.2f} ms while they are busy"
    return Row(f"one event to 1,000 {name} watchers, all idle", 1e3 * best, "ms", goal_ms, note)


_ELSEWHERE: dict[str, Callable[[int], ObjectSelection]] = {
    "nodes": lambda n: ObjectSelection(fields=(FieldTerm("spec.nodeName", f"other-{n}"),)),
    "names": lambda n: ObjectSelection(f"team-{n % 50}", fields=(FieldTerm("metadata.name", f"other-{n}"),)),
    "labels": lambda n: ObjectSelection(labels=HasLabel("app", f"other-{n}")),
    "namespaces": lambda n: ObjectSelection(f"other-{n}"),
}


async def _others(feed: _FilledCacher, name: str, selection: Callable[[int], ObjectSelection]) -> Row:
    """How much 1,000 watchers of something else add to the cost of an event."""
    watchers = [await _open(feed, selection(n)) for n in range(WATCHERS)]
    routes = feed.cacher._state.routes
    changes = []
    for batch in feed.batches(200):
        feed.apply(batch)
        changes.append(feed.cacher._state.history.list_changes_after(batch.revision - 1)[0])
    assert len(routes) == WATCHERS
    assert not any(watcher.queued for watcher in watchers)

    def measure() -> float:
        start = time.perf_counter()
        for change in changes:
            routes.dispatch(change)
        return (time.perf_counter() - start) / len(changes)

    best = _best(measure, 20)
    for watcher in watchers:
        await watcher.__aexit__(None, None, None)
    return Row(f"one event past 1,000 watchers of other {name}", 1e6 * best, "us", 20.0)


async def _open(feed: _FilledCacher, selection: ObjectSelection) -> Watcher:
    query = WatchQuery(selection, resource_version=str(feed.cacher.revision))
    return await feed.cacher.watch(query).__aenter__()


def _one(feed: _FilledCacher) -> float:
    (batch,) = feed.batches(1)
    start = time.perf_counter()
    feed.apply(batch)
    return time.perf_counter() - start


async def _read(watcher: Watcher) -> None:
    async for _ in watcher:
        pass


async def _all_idle(watchers: list[Watcher]) -> None:
    for _ in range(100):
        await asyncio.sleep(0)
        if all(watcher._wake is not None for watcher in watchers):
            return
    raise RuntimeError("the watchers do not come to rest")


async def _gets(cacher: Cacher) -> Row:
    async def measure() -> float:
        start = time.perf_counter()
        for number in range(1000):
            item = await cacher.get(f"team-{number % 50}", f"web-7d4b9c6f5d-{number:05}")
            assert item is not None
            assert item.raw
        return (time.perf_counter() - start) / 1000

    return Row("GET of one pod as bytes, consistent", 1e6 * await _least(measure), "us")


def _memory() -> Row:
    """What a pod takes beyond its own bytes, with indexes; the store is not counted."""
    count = 5_000
    values = [pod(number) for number in range(count)]
    events = [StoreEvent(number + 2, key(number), value, number + 2) for number, value in enumerate(values)]
    cacher = Cacher(backend=MemoryBackend(clock=RealClock()), shape=PODS, decode=msgspec.json.decode)
    state = cacher._state
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for event in events:
        item = state.item(event.key[:1] + event.key[1:], event.value, event.revision, None)
        assert item is not None
        state.contents.put(item, None)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = (after - before) / count
    return Row("memory of a cached pod of 3.5 KB", size, "bytes", 4600.0, f"its JSON is {len(values[0])} bytes")
