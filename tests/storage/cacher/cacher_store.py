"""Shared parts of the cacher tests: shapes, stored values, selectors, a store with a cacher, an event loop with virtual
time."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, cast

import msgspec

from sampan.api.selectors.fields import FieldTerm
from sampan.host.clock import RealClock
from sampan.storage.backend import Backend
from sampan.storage.cacher import (
    CachedField,
    CachedResource,
    CacheEvent,
    Cacher,
    CacherConfig,
    ListQuery,
    ListResult,
    ObjectSelection,
    Watcher,
    WatchQuery,
)
from sampan.storage.memory import MemoryBackend

PODS = CachedResource(
    prefix="/registry/pods/",
    kind="Pod",
    api_version="v1",
    plural="pods",
    fields=(
        CachedField("spec.nodeName", ("spec.nodeName",), indexed=True),
        CachedField("status.phase", ("status.phase",), default="Pending"),
        CachedField("spec.hostNetwork", ("spec.hostNetwork",), default="false"),
    ),
)
NODES = CachedResource(prefix="/registry/minions/", kind="Node", api_version="v1", plural="nodes", is_namespaced=False)


def pod(name: str, namespace: str = "default", *, labels: Mapping[str, str] | None = None, **rest: Any) -> bytes:
    """Return a stored pod; `node` and `phase` become fields, all other keywords annotations."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = dict(labels)
    node, phase = rest.pop("node", None), rest.pop("phase", None)
    if rest:
        metadata["annotations"] = {k: str(v) for k, v in rest.items()}
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {}, "status": {}}
    if node:
        pod["spec"] = {"nodeName": node}
    if phase:
        pod["status"] = {"phase": phase}
    return msgspec.json.encode(pod)


@dataclass(frozen=True)
class Labels:
    """A label selector of terms such as ("app", "=", ("web",)); operators are =, !=, in, notin, exists, !."""

    terms: tuple[tuple[str, str, tuple[str, ...]], ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(_matches_term(labels.get(label), operator, values) for label, operator, values in self.terms)

    def required_labels(self) -> Mapping[str, str]:
        return {label: values[0] for label, op, values in self.terms if op in ("=", "in") and len(values) == 1}


def _matches_term(value: str | None, operator: str, values: tuple[str, ...]) -> bool:
    match operator:
        case "=" | "in":
            return value in values
        case "!=" | "notin":
            return value not in values
        case "exists":
            return value is not None
    return value is None


def match_labels(**pairs: str) -> Labels:
    return Labels(tuple((label, "=", (value,)) for label, value in pairs.items()))


def select_objects(
    namespace: str = "", *, labels: Labels | None = None, name: str = "", **fields: str
) -> ObjectSelection:
    """Return a selection; `node="n1"` and `phase="Running"` are field terms, and a leading ! negates a value."""
    known = {"node": "spec.nodeName", "phase": "status.phase", "metadata_name": "metadata.name"}
    terms = tuple(FieldTerm(known[k], v.removeprefix("!"), v.startswith("!")) for k, v in fields.items())
    return ObjectSelection(namespace=namespace, name=name, labels=labels, fields=terms)


P = ParamSpec("P")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer when nothing else is ready. No task may wait for a thread."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        selector = cast(Any, self)._selector
        select = selector.select

        def skip(timeout: float | None) -> Any:
            if timeout is None:
                raise RuntimeError("all tasks wait forever")
            self._now += timeout
            return select(0)

        selector.select = skip

    def time(self) -> float:
        return self._now


def run_in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test in virtual loop time."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


class CachedStore:
    """A store with a cacher of pods."""

    def __init__(self, backend: Backend, cacher: Cacher) -> None:
        self.backend, self.cacher = backend, cacher

    async def put(self, name: str, namespace: str = "default", **content: Any) -> int:
        return await self.backend.put(PODS.key(namespace, name), pod(name, namespace, **content))

    async def delete(self, name: str, namespace: str = "default") -> int:
        return await self.backend.delete(PODS.key(namespace, name))

    async def list(self, selection: ObjectSelection | None = None, version: str = "", **query: Any) -> ListResult:
        return await self.cacher.list(ListQuery(selection or ObjectSelection(), version, **query))

    def watch(self, selection: ObjectSelection | None = None, version: str = "", **query: Any) -> Watcher:
        return self.cacher.watch(WatchQuery(selection or ObjectSelection(), version, **query))


@asynccontextmanager
async def running_cacher(
    backend: Backend, shape: CachedResource = PODS, config: CacherConfig | None = None, **rest: Any
) -> AsyncIterator[Cacher]:
    cacher = Cacher(backend=backend, shape=shape, decode=msgspec.json.decode, config=config, **rest)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(cacher.run())
        try:
            yield cacher
        finally:
            task.cancel()


@asynccontextmanager
async def open_pod_store(config: CacherConfig | None = None, **rest: Any) -> AsyncIterator[CachedStore]:
    async with MemoryBackend(clock=RealClock()) as backend, running_cacher(backend, PODS, config, **rest) as cacher:
        await cacher.wait_ready()
        yield CachedStore(backend, cacher)


def names(result: ListResult) -> list[str]:
    return [item.name for item in result.items]


def summarize_events(events: "list[CacheEvent]") -> list[tuple[str, str]]:
    return [(event.type, event.item.name) for event in events]


def decode_object(event: CacheEvent) -> dict[str, Any]:
    return cast(dict[str, Any], json.loads(event.item.raw))


def pop_ready_events(watcher: Watcher) -> "list[CacheEvent]":
    """Return all events that the watcher has ready."""
    events: list[CacheEvent] = []
    while batch := watcher.pop_ready():
        events += batch
    return events
