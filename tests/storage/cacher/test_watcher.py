import asyncio
import json
from collections.abc import Hashable, Sized

import pytest

from sampan.api.limits import HISTORY_REPLAYED
from sampan.api.selectors.fields import FieldTerm
from sampan.host.clock import RealClock
from sampan.storage.cacher import (
    ADDED,
    BOOKMARK,
    DELETED,
    MODIFIED,
    CacheItem,
    CacherConfig,
    HistoryLimits,
    InvalidVersion,
    ObjectSelection,
    TooLargeVersion,
    TooSlow,
    UnsupportedField,
    VersionExpired,
    WatchClosed,
    Watcher,
    WatchLimits,
    WatchQuery,
)
from sampan.storage.memory import MemoryBackend
from tests.storage.cacher.cacher_store import (
    Labels,
    decode_object,
    match_labels,
    open_pod_store,
    pod,
    pop_ready_events,
    run_in_virtual_time,
    running_cacher,
    select_objects,
    summarize_events,
)


@run_in_virtual_time
async def test_watch_from_a_resource_version() -> None:
    async with open_pod_store() as store:
        await store.put("a")
        revision = await store.put("b")
        await store.put("a", x=1)
        await store.delete("b")
        async with store.watch(version=str(revision)) as watcher:
            assert summarize_events(pop_ready_events(watcher)) == [(MODIFIED, "a"), (DELETED, "b")]
            await store.put("c")
            assert summarize_events(pop_ready_events(watcher)) == [(ADDED, "c")]
            assert pop_ready_events(watcher) == []


@run_in_virtual_time
@pytest.mark.parametrize("version", ["", "0"])
async def test_watch_without_resource_version_starts_with_current_objects(version: str) -> None:
    async with open_pod_store() as store:
        for name in "cab":
            await store.put(name)
        await store.put("a", x=1)
        async with store.watch(version=version) as watcher:
            await store.delete("b")
            events = pop_ready_events(watcher)
            assert summarize_events(events) == [(ADDED, "a"), (ADDED, "b"), (ADDED, "c"), (DELETED, "b")]
            assert decode_object(events[0])["metadata"]["annotations"] == {"x": "1"}


@run_in_virtual_time
@pytest.mark.parametrize(("version", "initial"), [("", True), ("", None), ("0", True), ("0", None), ("3", True)])
async def test_initial_events_end_with_a_bookmark(version: str, initial: bool | None) -> None:
    async with open_pod_store() as store:
        for name in "bca":
            await store.put(name)
        async with store.watch(version=version, send_initial_events=initial, allow_bookmarks=True) as watcher:
            *rest, mark = pop_ready_events(watcher)
            assert summarize_events(rest) == [(ADDED, "a"), (ADDED, "b"), (ADDED, "c")]
            assert mark.type == BOOKMARK
            assert json.loads(mark.frame()) == {
                "type": "BOOKMARK",
                "object": {
                    "kind": "Pod",
                    "apiVersion": "v1",
                    "metadata": {
                        "resourceVersion": str(store.cacher.revision),
                        "annotations": {"k8s.io/initial-events-end": "true"},
                    },
                },
            }


@run_in_virtual_time
async def test_initial_events_have_no_bookmark_unless_bookmarks_are_allowed() -> None:
    async with open_pod_store() as store:
        await store.put("a")
        async with store.watch(send_initial_events=True) as watcher:
            assert summarize_events(pop_ready_events(watcher)) == [(ADDED, "a")]


@run_in_virtual_time
@pytest.mark.parametrize("version", ["", "0"])
async def test_send_initial_events_false(version: str) -> None:
    async with open_pod_store() as store:
        await store.put("a")
        await store.backend.put("/registry/secrets/default/s", b"{}")
        async with store.watch(version=version, send_initial_events=False, allow_bookmarks=True) as watcher:
            assert pop_ready_events(watcher) == []
            await store.put("a", x=1)
            assert summarize_events(pop_ready_events(watcher)) == [(MODIFIED, "a")]


@run_in_virtual_time
async def test_streaming_list_is_consistent_with_the_store() -> None:
    async with open_pod_store() as store:
        await store.put("a")
        other = await store.backend.put("/registry/secrets/default/s", b"{}")
        async with store.watch(allow_bookmarks=True) as watcher:
            assert pop_ready_events(watcher)[-1].revision == other


@run_in_virtual_time
async def test_streaming_list_from_a_future_resource_version_fails() -> None:
    async with open_pod_store() as store:
        with pytest.raises(TooLargeVersion):
            async with store.watch(version="999999999999", send_initial_events=True):
                pass


@run_in_virtual_time
async def test_watch_from_a_future_resource_version_skips_earlier_events() -> None:
    async with open_pod_store() as store:
        revision = await store.put("a")
        async with store.watch(version=str(revision + 2)) as watcher, store.watch(version=str(revision)) as other:
            await store.put("b")
            await store.put("c")
            await store.put("d")
            assert summarize_events(pop_ready_events(watcher)) == [(ADDED, "d")]
            assert summarize_events(pop_ready_events(other)) == [(ADDED, "b"), (ADDED, "c"), (ADDED, "d")]


@run_in_virtual_time
async def test_watch_from_before_the_history_is_expired() -> None:
    async with open_pod_store(CacherConfig(history=HistoryLimits(events=2))) as store:
        old = await store.put("a")
        for name in "bcd":
            await store.put(name)
        with pytest.raises(VersionExpired, match=rf"^too old resource version: {old} \({old + 1}\)$"):
            async with store.watch(version=str(old)):
                pass
        async with store.watch(version=str(old + 1)) as watcher:
            assert summarize_events(pop_ready_events(watcher)) == [(ADDED, "c"), (ADDED, "d")]


@run_in_virtual_time
async def test_watch_from_before_the_first_fill_replays_the_store_history() -> None:
    """After a restart of the server, clients can resume their watches as far as the store has the history."""
    async with MemoryBackend(clock=RealClock()) as backend:
        before = await backend.put("/registry/pods/default/a", pod("a"))
        await backend.compact(before)
        await backend.put("/registry/pods/default/b", pod("b"))
        await backend.put("/registry/pods/default/a", pod("a", phase="Running"))
        await backend.delete("/registry/pods/default/b")
        async with running_cacher(backend) as cacher:
            await cacher.wait_ready()
            async with cacher.watch(WatchQuery(resource_version=str(cacher.revision))) as watcher:
                assert pop_ready_events(watcher) == []
            async with cacher.watch(WatchQuery(resource_version=str(before))) as watcher:
                assert summarize_events(pop_ready_events(watcher)) == [(ADDED, "b"), (MODIFIED, "a"), (DELETED, "b")]
            with pytest.raises(VersionExpired, match=rf"^too old resource version: {before - 1} \({before}\)$"):
                async with cacher.watch(WatchQuery(resource_version=str(before - 1))):
                    pass


@run_in_virtual_time
async def test_replay_of_the_store_history_at_startup_is_bounded() -> None:
    async with MemoryBackend(clock=RealClock()) as backend:
        for number in range(HISTORY_REPLAYED + 100):
            last = await backend.put(f"/registry/pods/default/p{number}", pod(f"p{number}"))
        async with running_cacher(backend) as cacher:
            await cacher.wait_ready()
            stats = cacher.stats()
            assert (stats.history_events, stats.history_floor) == (HISTORY_REPLAYED, last - HISTORY_REPLAYED)
            assert (stats.items, stats.revision) == (HISTORY_REPLAYED + 100, last)


@run_in_virtual_time
async def test_invalid_watch_queries_raise_on_enter() -> None:
    async with open_pod_store() as store:
        with pytest.raises(InvalidVersion, match=r'^resourceVersion: Invalid value: "abc"'):
            async with store.watch(version="abc"):
                pass
        with pytest.raises(UnsupportedField):
            async with store.watch(ObjectSelection(fields=(FieldTerm("spec.x", "1"),))):
                pass
        assert store.cacher.stats().watchers == 0


@run_in_virtual_time
@pytest.mark.parametrize("is_live", [True, False], ids=["live", "from history"])
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (match_labels(active="yes"), ["ADDED a", "DELETED a", "ADDED b", "MODIFIED b", "DELETED b"]),
        (match_labels(active="no"), ["ADDED b", "ADDED a", "DELETED b", "DELETED a"]),
        (
            Labels((("active", "exists", ()),)),
            ["ADDED a", "ADDED b", "MODIFIED a", "MODIFIED b", "MODIFIED b", "DELETED b", "DELETED a"],
        ),
        (Labels((("active", "!", ()),)), ["ADDED b", "DELETED b"]),
        (
            Labels((("active", "in", ("no", "maybe")),)),
            ["ADDED b", "ADDED a", "DELETED b", "DELETED a"],
        ),
    ],
    ids=["yes", "no", "exists", "absent", "in"],
)
async def test_label_changes_move_objects_into_and_out_of_a_selection(
    is_live: bool, labels: Labels, expected: list[str]
) -> None:
    async with open_pod_store() as store:
        start = str(store.cacher.revision)

        async def make_changes() -> None:
            await store.put("a", labels={"active": "yes"})
            await store.put("b", labels={"active": "no"})
            await store.put("a", labels={"active": "no"})
            await store.put("b", labels={"active": "yes"})
            await store.put("b", labels={"active": "yes", "extra": "1"})
            await store.put("b")
            await store.delete("b")
            await store.delete("a")

        if not is_live:
            await make_changes()
        async with store.watch(select_objects(labels=labels), start) as watcher:
            if is_live:
                await make_changes()
            assert [f"{event.type} {event.item.name}" for event in pop_ready_events(watcher)] == expected


@run_in_virtual_time
async def test_deleted_event_has_the_old_object_and_the_new_resource_version() -> None:
    async with open_pod_store() as store:
        await store.put("a", labels={"active": "yes"}, note="old")
        async with (
            store.watch(select_objects(labels=match_labels(active="yes")), send_initial_events=False) as watcher,
            store.watch(send_initial_events=False) as unfiltered,
        ):
            left = await store.put("a", labels={"active": "no"}, note="new")
            deletion = await store.delete("a")
            (event,) = pop_ready_events(watcher)
            shown = decode_object(event)["metadata"]
            assert (event.type, shown["labels"], shown["annotations"]) == (DELETED, {"active": "yes"}, {"note": "old"})
            assert (shown["resourceVersion"], event.revision) == (str(left), left)
            *_, deleted = pop_ready_events(unfiltered)
            shown = decode_object(deleted)["metadata"]
            assert (deleted.type, shown["annotations"]) == (DELETED, {"note": "new"})
            assert (shown["resourceVersion"], deleted.revision) == (str(deletion), deletion)


@run_in_virtual_time
@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (select_objects(), ["ADDED a", "MODIFIED a", "ADDED b", "MODIFIED a", "DELETED a"]),
        (select_objects("default"), ["ADDED a", "MODIFIED a", "MODIFIED a", "DELETED a"]),
        (select_objects("other"), ["ADDED b"]),
        (select_objects("default", name="a"), ["ADDED a", "MODIFIED a", "MODIFIED a", "DELETED a"]),
        (select_objects("default", metadata_name="b"), []),
        (select_objects(metadata_name="b"), ["ADDED b"]),
        (select_objects(metadata_name="!b"), ["ADDED a", "MODIFIED a", "MODIFIED a", "DELETED a"]),
        (select_objects(node="n1"), ["ADDED a", "MODIFIED a", "DELETED a"]),
        (select_objects(node=""), ["ADDED a", "DELETED a", "ADDED b"]),
        (select_objects(node="n2"), []),
        (select_objects(node="!n2"), ["ADDED a", "MODIFIED a", "ADDED b", "MODIFIED a", "DELETED a"]),
        (select_objects(phase="Running"), ["ADDED a", "DELETED a"]),
        (select_objects(phase="Running", node="n1"), ["ADDED a", "DELETED a"]),
        (select_objects("other", node="n1"), []),
    ],
    ids=str,
)
async def test_watch_with_selectors(selection: ObjectSelection, expected: list[str]) -> None:
    async with open_pod_store() as store, store.watch(selection, send_initial_events=False) as watcher:
        await store.put("a")
        await store.put("a", node="n1")
        await store.put("b", "other")
        await store.put("a", node="n1", phase="Running")
        await store.delete("a")
        assert [f"{event.type} {event.item.name}" for event in pop_ready_events(watcher)] == expected


@run_in_virtual_time
async def test_iteration_yields_ready_events_and_waits_for_more() -> None:
    async with open_pod_store() as store, store.watch() as watcher:
        batches: list[list[tuple[str, str]]] = []

        async def read() -> None:
            async for events in watcher:
                batches.append(summarize_events(events))
                if events[-1].item.name == "d":
                    return

        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(read())
            await store.put("a")
            await asyncio.sleep(1)
            await store.put("b")
            await store.put("c")
            await store.put("d")
            await reading
        assert [event for batch in batches for event in batch] == [(ADDED, name) for name in "abcd"]
        assert batches[0] == [(ADDED, "a")]


@run_in_virtual_time
async def test_initial_events_are_delivered_in_batches() -> None:
    async with open_pod_store() as store:
        for i in range(1200):
            await store.put(f"p{i:04}")
        async with store.watch(allow_bookmarks=True) as watcher:
            await store.put("p9999")
            sizes = []
            async for events in watcher:
                sizes.append(len(events))
                if sum(sizes) == 1202:
                    break
            assert sizes == [500, 500, 202]


@run_in_virtual_time
async def test_watch_ends_without_error_after_its_timeout() -> None:
    async with open_pod_store() as store, store.watch(timeout_s=5) as watcher:
        await store.put("a")
        assert [summarize_events(events) async for events in watcher] == [[(ADDED, "a")]]
        assert asyncio.get_running_loop().time() == pytest.approx(5)


@run_in_virtual_time
async def test_events_do_not_extend_the_timeout_of_a_watch() -> None:
    async with open_pod_store() as store, asyncio.TaskGroup() as tasks:

        async def write() -> None:
            for number in range(100):
                await store.put("a", number=number)
                await asyncio.sleep(0.25)

        writing = tasks.create_task(write())
        async with store.watch(timeout_s=2) as watcher:
            count = sum([len(events) async for events in watcher])
        assert count in (8, 9)
        assert asyncio.get_running_loop().time() == pytest.approx(2, abs=0.3)
        writing.cancel()


@run_in_virtual_time
async def test_bookmarks_are_sent_every_minute_and_before_the_timeout() -> None:
    async with open_pod_store() as store:
        loop = asyncio.get_running_loop()
        at: list[tuple[int, int]] = []
        await store.put("a")

        async def write_secrets() -> None:
            for _ in range(30):
                await store.backend.put("/registry/secrets/default/s", b"{}")
                await asyncio.sleep(5)

        async with asyncio.TaskGroup() as tasks, store.watch(timeout_s=150, allow_bookmarks=True) as watcher:
            tasks.create_task(write_secrets())
            async for events in watcher:
                at += [(round(loop.time()), event.revision) for event in events if event.type == BOOKMARK]
        assert [time for time, _ in at] == [0, 60, 120, 148]
        revisions = [revision for _, revision in at]
        assert revisions == sorted(set(revisions))
        plain = json.loads(events[-1].frame())["object"]
        assert plain == {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(revisions[-1])}}


@run_in_virtual_time
async def test_a_short_watch_gets_no_bookmark_before_its_end() -> None:
    async with open_pod_store() as store:
        await store.put("a")
        async with store.watch(timeout_s=1, allow_bookmarks=True, send_initial_events=False) as watcher:
            assert [events async for events in watcher] == []


@run_in_virtual_time
async def test_no_bookmark_without_a_new_revision_or_unless_allowed() -> None:
    async with open_pod_store() as store:
        await store.put("a")
        async with (
            store.watch(timeout_s=100, allow_bookmarks=True, send_initial_events=False) as quiet,
            store.watch(timeout_s=100, send_initial_events=False) as refused,
        ):
            assert [events async for events in quiet] == []
            assert [events async for events in refused] == []


@run_in_virtual_time
@pytest.mark.parametrize("limits", [WatchLimits(events=10), WatchLimits(bytes=12_000)], ids=["events", "bytes"])
async def test_only_the_slow_watcher_is_terminated(limits: WatchLimits) -> None:
    async with open_pod_store(CacherConfig(watch=limits)) as store, store.watch() as slow, store.watch() as other:
        events = []
        for i in range(30):
            await store.put(f"p{i:02}", pad="x" * 1000)
            events += summarize_events(pop_ready_events(other))
        assert len(events) == 30
        assert slow.pop_ready() == []
        with pytest.raises(TooSlow):
            await anext(slow)
        stats = store.cacher.stats()
        assert (stats.cut_off, stats.watchers, stats.queued_events) == (1, 1, 0)


@run_in_virtual_time
async def test_replayed_history_does_not_count_against_the_queue_limit() -> None:
    async with open_pod_store(CacherConfig(watch=WatchLimits(events=10))) as store:
        start = str(store.cacher.revision)
        for i in range(600):
            await store.put(f"p{i:03}")
        async with store.watch(version=start) as watcher, store.watch() as another:
            assert len(pop_ready_events(watcher)) == len(pop_ready_events(another)) == 600


@run_in_virtual_time
async def test_events_queued_before_the_end_are_delivered() -> None:
    async with open_pod_store() as store:
        await store.put("a")
        async with store.watch() as watcher:
            await store.put("b")
            watcher.end(VersionExpired("over"))
            assert summarize_events(await anext(watcher)) == [(ADDED, "a"), (ADDED, "b")]
            with pytest.raises(VersionExpired, match="over"):
                await anext(watcher)


@run_in_virtual_time
async def test_watchers_end_when_the_cacher_stops() -> None:
    async with MemoryBackend(clock=RealClock()) as backend:
        async with running_cacher(backend) as cacher:
            watcher = cacher.watch(WatchQuery())
            await watcher.__aenter__()
        with pytest.raises(WatchClosed, match="the watch cache of pods has stopped"):
            await anext(watcher)
        await watcher.__aexit__(None, None, None)


@run_in_virtual_time
async def test_event_is_encoded_once_for_all_watchers() -> None:
    class Names:
        calls = 0

        def __init__(self, key: Hashable) -> None:
            self.key = key

        def frame(self, type: str, item: CacheItem) -> bytes:
            Names.calls += 1
            return f"{self.key} {type} {item.name}\n".encode()

    async with (
        open_pod_store() as store,
        store.watch() as cluster_wide,
        store.watch(select_objects("default")) as namespaced,
    ):
        await store.put("a")
        (first,), (second,) = pop_ready_events(cluster_wide), pop_ready_events(namespaced)
        assert first is second
        assert first.frame() is first.frame()
        assert json.loads(first.frame()) == {"type": "ADDED", "object": json.loads(first.item.raw)}
        assert first.frame().endswith(b"}\n")
        assert first.frame(Names("x")) is first.frame(Names("x"))
        assert first.frame(Names("y")) == b"y ADDED a\n"
        assert Names.calls == 2


@run_in_virtual_time
async def test_equal_queries_share_a_group_that_ends_with_its_last_watcher() -> None:
    async with open_pod_store() as store:
        routes = store.cacher._state.routes
        selections = [
            select_objects(),
            select_objects("default"),
            select_objects("default", name="a"),
            select_objects(metadata_name="a"),
            select_objects(node="n1"),
            select_objects(labels=match_labels(app="x")),
        ]
        async with asyncio.TaskGroup() as tasks:
            left = asyncio.Event()

            async def hold(selection: ObjectSelection) -> None:
                async with store.watch(selection):
                    await left.wait()

            for selection in selections * 3:
                tasks.create_task(hold(selection))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert (len(routes), len(routes._groups)) == (18, 6)
            left.set()
        tables: list[Sized] = [routes._objects, routes._names, routes._fields, routes._labels, routes._namespaces]
        assert (len(routes), len(routes._groups)) == (0, 0)
        assert [len(table) for table in tables] == [0] * 5
        assert routes._everything == {}


@run_in_virtual_time
async def test_a_backlog_of_several_batches_is_delivered_once_and_leaves_nothing_queued() -> None:
    size, count = Watcher.BATCH_BYTES // 16, 40
    config = CacherConfig(watch=WatchLimits(events=count, bytes=1 << 30))
    async with open_pod_store(config) as store, store.watch() as watcher:
        assert pop_ready_events(watcher) == []
        for number in range(count):
            await store.put(f"p{number:04}", padding="x" * size)
        batches = []
        while events := watcher.pop_ready():
            batches.append(events)
        assert len(batches) == 3
        names = [name for batch in batches for _, name in summarize_events(batch)]
        assert names == [f"p{number:04}" for number in range(count)]
        assert (watcher.queued, watcher.queued_bytes) == (0, 0)
        await store.put("last")
        assert summarize_events(watcher.pop_ready()) == [(ADDED, "last")]
