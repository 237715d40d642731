"""The cacher beside a model that knows only the log of all writes: all results agree."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sampan.storage.backend import StoreConflict
from sampan.storage.cacher import (
    CacheEvent,
    CacherConfig,
    HistoryLimits,
    ListResult,
    ObjectSelection,
    VersionExpired,
    Watcher,
)
from tests.storage.cacher.cacher_store import (
    PODS,
    CachedStore,
    Labels,
    VirtualTimeLoop,
    match_labels,
    open_pod_store,
    pod,
    pop_ready_events,
    select_objects,
)

Content = tuple[str, int]
"""A note that identifies the write, and the resource version."""


@dataclass(frozen=True)
class Write:
    revision: int
    namespace: str
    name: str
    value: dict[str, Any] | None


@dataclass
class Model:
    """All writes in order. Results are computed by a replay."""

    writes: list[Write] = field(default_factory=list)

    def state(self, revision: int, selection: ObjectSelection) -> list[tuple[str, str, int]]:
        objects: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
        for write in self.writes:
            if write.revision <= revision:
                objects.pop((write.namespace, write.name), None)
                if write.value is not None:
                    objects[write.namespace, write.name] = (write.revision, write.value)
        chosen = [(ns, name, at) for (ns, name), (at, value) in objects.items() if _selects(selection, value)]
        return sorted(chosen, key=lambda entry: PODS.key(entry[0], entry[1]))

    def events(self, after: int, selection: ObjectSelection) -> list[tuple[str, str, str, int, str]]:
        """Return the type, namespace, name, version and note of each event."""
        now: dict[tuple[str, str], dict[str, Any]] = {}
        events = []
        for write in self.writes:
            key = (write.namespace, write.name)
            old, new = now.pop(key, None), write.value
            if new is not None:
                now[key] = new
            was, is_now = (value is not None and _selects(selection, value) for value in (old, new))
            if write.revision > after and (was or is_now):
                shown = new if is_now else old
                kind = "MODIFIED" if was and is_now else "ADDED" if is_now else "DELETED"
                assert shown is not None
                events.append((kind, *key, write.revision, shown["metadata"]["annotations"]["note"]))
        return events


def _selects(selection: ObjectSelection, value: dict[str, Any]) -> bool:
    metadata = value["metadata"]
    fields = {
        "metadata.name": metadata["name"],
        "spec.nodeName": value["spec"].get("nodeName", ""),
        "status.phase": value["status"].get("phase", "Pending"),
    }
    return (
        selection.namespace in ("", metadata["namespace"])
        and selection.name in ("", metadata["name"])
        and (selection.labels is None or selection.labels.matches(metadata.get("labels", {})))
        and all((fields[term.field] == term.value) != term.is_negated for term in selection.fields)
    )


@dataclass
class Pages:
    selection: ObjectSelection
    limit: int
    revision: int
    token: str
    entries: list[tuple[str, str, int]]


class Session:
    def __init__(self, store: CachedStore) -> None:
        self.store, self.model = store, Model()
        self.start = store.cacher.revision
        self.compacted = 0
        self.pages: list[Pages] = []
        self.watches: list[tuple[Watcher, ObjectSelection, int, list[Any]]] = []

    async def put(self, place: tuple[str, str], labels: dict[str, str], node: str, phase: str) -> None:
        namespace, name = place
        note = str(len(self.model.writes))
        value = pod(name, namespace, labels=labels, node=node, phase=phase, note=note)
        revision = await self.store.backend.put(PODS.key(namespace, name), value)
        self.model.writes.append(Write(revision, namespace, name, json.loads(value)))

    async def delete(self, place: tuple[str, str]) -> None:
        try:
            revision = await self.store.backend.delete(PODS.key(*place))
        except StoreConflict:
            return
        self.model.writes.append(Write(revision, *place, None))

    async def put_secret(self) -> None:
        await self.store.backend.put("/registry/secrets/default/s", b"{}")

    async def compact(self, revisions_ago: int) -> None:
        self.compacted = max(self.compacted, await self.store.backend.current_revision() - revisions_ago)
        await self.store.backend.compact(self.compacted)

    async def list(self, selection: ObjectSelection, limit: int) -> None:
        now = await self.store.backend.current_revision()
        result = await self.store.list(selection, limit=limit)
        assert result.revision == now
        self._check_first_page(result, selection, limit)

    async def list_any(self, selection: ObjectSelection) -> None:
        result = await self.store.list(selection, "0", limit=1)
        assert _items(result) == self.model.state(result.revision, selection)

    async def list_not_older(self, selection: ObjectSelection, revisions_ago: int) -> None:
        version = max(await self.store.backend.current_revision() - revisions_ago, 1)
        result = await self.store.list(selection, str(version), match="NotOlderThan")
        assert result.revision >= version
        assert _items(result) == self.model.state(result.revision, selection)

    async def list_exact(self, selection: ObjectSelection, revisions_ago: int, limit: int) -> None:
        revision = max(await self.store.backend.current_revision() - revisions_ago, self.start)
        try:
            result = await self.store.list(selection, str(revision), match="Exact", limit=limit)
        except VersionExpired:
            assert revision < self.compacted
            return
        assert revision >= self.compacted
        assert result.revision == revision
        self._check_first_page(result, selection, limit)

    async def next_page(self, index: int) -> None:
        if not self.pages:
            return
        pages = self.pages.pop(index % len(self.pages))
        try:
            result = await self.store.list(pages.selection, limit=pages.limit, continue_token=pages.token)
        except VersionExpired as fault:
            assert pages.revision < self.compacted
            result = await self.store.list(pages.selection, continue_token=fault.continue_token)
            rest = self.model.state(result.revision, pages.selection)
            last = PODS.key(*pages.entries[-1][:2])
            assert _items(result) == [entry for entry in rest if PODS.key(*entry[:2]) > last]
            return
        assert result.revision == pages.revision
        self._check_page(result, pages)

    async def watch(self, selection: ObjectSelection, revisions_ago: int) -> None:
        revision = max(self.store.cacher.revision - revisions_ago, 0)
        watcher = self.store.watch(selection, str(revision), send_initial_events=False if revision == 0 else None)
        try:
            await watcher.__aenter__()
        except VersionExpired:
            assert revision < self.store.cacher.stats().history_floor
            return
        self.watches.append((watcher, selection, revision or self.store.cacher.revision, []))

    async def stream_list(self, selection: ObjectSelection) -> None:
        watcher = await self.store.watch(selection, allow_bookmarks=True).__aenter__()
        *items, mark = pop_ready_events(watcher)
        assert {event.type for event in items} <= {"ADDED"}
        shown = [(event.item.namespace, event.item.name, event.revision) for event in items]
        assert shown == self.model.state(mark.revision, selection)
        self.watches.append((watcher, selection, mark.revision, []))

    async def drain(self, index: int) -> None:
        if self.watches:
            watcher, _, _, received = self.watches[index % len(self.watches)]
            received += pop_ready_events(watcher)

    async def close_watch(self, index: int) -> None:
        if self.watches:
            await self._finish(*self.watches.pop(index % len(self.watches)))

    async def finish(self) -> None:
        for watch in self.watches:
            await self._finish(*watch)
        while self.pages:
            await self.next_page(0)

    async def _finish(
        self, watcher: Watcher, selection: ObjectSelection, after: int, received: Sequence[CacheEvent]
    ) -> None:
        received = [*received, *pop_ready_events(watcher)]
        await watcher.__aexit__(None, None, None)
        assert [_event_fields(event) for event in received] == self.model.events(after, selection)

    def _check_first_page(self, result: ListResult, selection: ObjectSelection, limit: int) -> None:
        self._check_page(result, Pages(selection, limit, result.revision, "", []))

    def _check_page(self, result: ListResult, pages: Pages) -> None:
        whole = self.model.state(pages.revision, pages.selection)
        shown = _items(result)
        begin = len(pages.entries)
        pages.entries = pages.entries + shown
        if not result.continue_token:
            assert pages.entries == whole
            assert result.remaining is None
            return
        assert pages.limit
        assert shown == whole[begin : begin + pages.limit]
        rest = len(whole) - len(pages.entries)
        assert result.remaining == (None if pages.selection.is_filtered else rest)
        pages.token = result.continue_token
        self.pages.append(pages)


def _items(result: ListResult) -> list[tuple[str, str, int]]:
    for item in result.items:
        assert json.loads(item.raw)["metadata"]["resourceVersion"] == str(item.revision)
    return [(item.namespace, item.name, item.revision) for item in result.items]


def _event_fields(event: CacheEvent) -> tuple[str, str, str, int, str]:
    value = json.loads(event.frame())
    metadata = value["object"]["metadata"]
    note, version = metadata["annotations"]["note"], int(metadata["resourceVersion"])
    return (value["type"], metadata["namespace"], metadata["name"], version, note)


PLACES = [(namespace, name) for namespace in ("a", "a-b", "b") for name in "pqrst"]
SELECTIONS = [
    select_objects(),
    select_objects("a"),
    select_objects("b"),
    select_objects("a", name="p"),
    select_objects(metadata_name="q"),
    select_objects(node="n1"),
    select_objects("a", node="n2"),
    select_objects(node="!n1"),
    select_objects(node="", phase="Running"),
    select_objects(phase="!Running"),
    select_objects(labels=match_labels(app="x")),
    select_objects("a", labels=match_labels(app="x", tier="y")),
    select_objects(labels=Labels((("app", "!=", ("x",)),))),
    select_objects(labels=Labels((("tier", "exists", ()),)), node="n1"),
]
places, selections = st.sampled_from(PLACES), st.sampled_from(SELECTIONS)
labels = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["x", "y"]), max_size=2)
nodes, phases = st.sampled_from(["", "n1", "n2"]), st.sampled_from(["", "Running"])
revisions_ago, limits, index = st.integers(0, 12), st.integers(0, 4), st.integers(0, 5)
STEPS: dict[str, tuple[int, tuple[st.SearchStrategy[Any], ...]]] = {
    "put": (30, (places, labels, nodes, phases)),
    "delete": (12, (places,)),
    "put_secret": (3, ()),
    "compact": (1, (revisions_ago,)),
    "list": (4, (selections, limits)),
    "list_any": (1, (selections,)),
    "list_not_older": (1, (selections, revisions_ago)),
    "list_exact": (6, (selections, revisions_ago, limits)),
    "next_page": (10, (index,)),
    "watch": (4, (selections, revisions_ago)),
    "stream_list": (2, (selections,)),
    "drain": (3, (index,)),
    "close_watch": (3, (index,)),
}
"""The weight of each step, and the strategies of its arguments."""
step_names = st.sampled_from([name for name, (weight, _) in STEPS.items() for _ in range(weight)])
KEPT = [3, 8, 1000]


@settings(max_examples=60, phases=[Phase.generate])  # reading a failing run is faster than shrinking it
@given(st.data(), st.sampled_from(KEPT), st.integers(20, 150))
def test_cacher_agrees_with_the_model_of_the_log(data: st.DataObject, kept: int, length: int) -> None:
    async def run() -> None:
        async with open_pod_store(CacherConfig(history=HistoryLimits(events=kept))) as store:
            session = Session(store)
            for _ in range(length):
                name = data.draw(step_names)
                await getattr(session, name)(*[data.draw(argument) for argument in STEPS[name][1]])
            await session.finish()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())
