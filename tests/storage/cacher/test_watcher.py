import asyncio
import json
from collections.abc import Hashable, Sized

import pytest

from sampan.api.limits import HISTORY_REPLAYED
from sampan.api.selectors.fields import FieldTerm
from sampan.machinery.clock import RealClock
from sampan.storage.cacher import (
    ADDED,
    BOOKMARK,
    DELETED,
    MODIFIED,
    CacherConfig,
    HistoryLimits,
    InvalidVersion,
    Item,
    ObjectSelection,
    TooLargeVersion,
    TooSlow,
    UnsupportedField,
    VersionExpired,
    WatchClosed,
    WatchLimits,
    WatchQuery,
)
from sampan.storage.memory import MemoryBackend
from tests.storage.cacher.cacher_store import (
    Labels,
    labelled,
    obj,
    pod,
    pods,
    ready,
    running,
    shown_events,
    virtual,
    where,
)


@virtual
async def test_from_a_version() -> None:
    async with pods() as world:
        await world.put("a")
        revision = await world.put("b")
        await world.put("a", x=1)
        await world.delete("b")
        async with world.watch(version=str(revision)) as watcher:
            assert shown_events(ready(watcher)) == [(MODIFIED, "a"), (DELETED, "b")]
            await world.put("c")
            assert shown_events(ready(watcher)) == [(ADDED, "c")]
            assert ready(watcher) == []


@virtual
@pytest.mark.parametrize("version", ["", "0"])
async def test_from_no_version_the_present_comes_first(version: str) -> None:
    async with pods() as world:
        for name in "cab":
            await world.put(name)
        await world.put("a", x=1)
        async with world.watch(version=version) as watcher:
            await world.delete("b")
            events = ready(watcher)
            assert shown_events(events) == [(ADDED, "a"), (ADDED, "b"), (ADDED, "c"), (DELETED, "b")]
            assert obj(events[0])["metadata"]["annotations"] == {"x": "1"}


@virtual
@pytest.mark.parametrize(("version", "initial"), [("", True), ("", None), ("0", True), ("0", None), ("3", True)])
async def test_the_end_of_the_present_is_marked(version: str, initial: bool | None) -> None:
    async with pods() as world:
        for name in "bca":
            await world.put(name)
        async with world.watch(version=version, send_initial_events=initial, allow_bookmarks=True) as watcher:
            *rest, mark = ready(watcher)
            assert shown_events(rest) == [(ADDED, "a"), (ADDED, "b"), (ADDED, "c")]
            assert mark.type == BOOKMARK
            assert json.loads(mark.frame()) == {
                "type": "BOOKMARK",
                "object": {
                    "kind": "Pod",
                    "apiVersion": "v1",
                    "metadata": {
                        "resourceVersion": str(world.cacher.revision),
                        "annotations": {"k8s.io/initial-events-end": "true"},
                    },
                },
            }


@virtual
async def test_no_end_mark_without_leave_for_bookmarks() -> None:
    async with pods() as world:
        await world.put("a")
        async with world.watch(send_initial_events=True) as watcher:
            assert shown_events(ready(watcher)) == [(ADDED, "a")]


@virtual
@pytest.mark.parametrize("version", ["", "0"])
async def test_initial_events_refused(version: str) -> None:
    async with pods() as world:
        await world.put("a")
        await world.backend.put("/registry/secrets/default/s", b"{}")
        async with world.watch(version=version, send_initial_events=False, allow_bookmarks=True) as watcher:
            assert ready(watcher) == []
            await world.put("a", x=1)
            assert shown_events(ready(watcher)) == [(MODIFIED, "a")]


@virtual
async def test_a_streamed_list_is_as_new_as_the_store() -> None:
    async with pods() as world:
        await world.put("a")
        other = await world.backend.put("/registry/secrets/default/s", b"{}")
        async with world.watch(allow_bookmarks=True) as watcher:
            assert ready(watcher)[-1].revision == other


@virtual
async def test_a_streamed_list_of_the_future_fails() -> None:
    async with pods() as world:
        with pytest.raises(TooLargeVersion):
            async with world.watch(version="999999999999", send_initial_events=True):
                pass


@virtual
async def test_a_version_of_the_future_waits() -> None:
    async with pods() as world:
        revision = await world.put("a")
        async with world.watch(version=str(revision + 2)) as watcher, world.watch(version=str(revision)) as other:
            await world.put("b")
            await world.put("c")
            await world.put("d")
            assert shown_events(ready(watcher)) == [(ADDED, "d")]
            assert shown_events(ready(other)) == [(ADDED, "b"), (ADDED, "c"), (ADDED, "d")]


@virtual
async def test_a_version_from_before_the_history() -> None:
    async with pods(CacherConfig(history=HistoryLimits(events=2))) as world:
        old = await world.put("a")
        for name in "bcd":
            await world.put(name)
        with pytest.raises(VersionExpired, match=rf"^too old resource version: {old} \({old + 1}\)$"):
            async with world.watch(version=str(old)):
                pass
        async with world.watch(version=str(old + 1)) as watcher:
            assert shown_events(ready(watcher)) == [(ADDED, "c"), (ADDED, "d")]


@virtual
async def test_from_before_the_first_fill() -> None:
    """A server that was started again lets clients go on with the watches that they had, as far as the store can."""
    async with MemoryBackend(clock=RealClock()) as backend:
        before = await backend.put("/registry/pods/default/a", pod("a"))
        await backend.compact(before)
        await backend.put("/registry/pods/default/b", pod("b"))
        await backend.put("/registry/pods/default/a", pod("a", phase="Running"))
        await backend.delete("/registry/pods/default/b")
        async with running(backend) as cacher:
            await cacher.wait_ready()
            async with cacher.watch(WatchQuery(resource_version=str(cacher.revision))) as watcher:
                assert ready(watcher) == []
            async with cacher.watch(WatchQuery(resource_version=str(before))) as watcher:
                assert shown_events(ready(watcher)) == [(ADDED, "b"), (MODIFIED, "a"), (DELETED, "b")]
            with pytest.raises(VersionExpired, match=rf"^too old resource version: {before - 1} \({before}\)$"):
                async with cacher.watch(WatchQuery(resource_version=str(before - 1))):
                    pass


@virtual
async def test_no_more_is_replayed_at_the_start_than_there_is_a_bound_for() -> None:
    async with MemoryBackend(clock=RealClock()) as backend:
        for number in range(HISTORY_REPLAYED + 100):
            last = await backend.put(f"/registry/pods/default/p{number}", pod(f"p{number}"))
        async with running(backend) as cacher:
            await cacher.wait_ready()
            stats = cacher.stats()
            assert (stats.history_events, stats.history_floor) == (HISTORY_REPLAYED, last - HISTORY_REPLAYED)
            assert (stats.items, stats.revision) == (HISTORY_REPLAYED + 100, last)


@virtual
async def test_what_is_wrong_is_raised_on_entering() -> None:
    async with pods() as world:
        with pytest.raises(InvalidVersion, match=r'^resourceVersion: Invalid value: "abc"'):
            async with world.watch(version="abc"):
                pass
        with pytest.raises(UnsupportedField):
            async with world.watch(ObjectSelection(fields=(FieldTerm("spec.x", "1"),))):
                pass
        assert world.cacher.stats().watchers == 0


STORY = """Live and from history, a selector sees its own side of: a comes with active=yes, b with no; a turns to no,
b to yes; b is changed; b loses its labels; b goes; a goes."""


@virtual
@pytest.mark.parametrize("is_live", [True, False], ids=["live", "from history"])
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (labelled(active="yes"), ["ADDED a", "DELETED a", "ADDED b", "MODIFIED b", "DELETED b"]),
        (labelled(active="no"), ["ADDED b", "ADDED a", "DELETED b", "DELETED a"]),
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
async def test_entering_and_leaving_a_selection(is_live: bool, labels: Labels, expected: list[str]) -> None:
    async with pods() as world:
        start = str(world.cacher.revision)

        async def story() -> None:
            await world.put("a", labels={"active": "yes"})
            await world.put("b", labels={"active": "no"})
            await world.put("a", labels={"active": "no"})
            await world.put("b", labels={"active": "yes"})
            await world.put("b", labels={"active": "yes", "extra": "1"})
            await world.put("b")
            await world.delete("b")
            await world.delete("a")

        if not is_live:
            await story()
        async with world.watch(where(labels=labels), start) as watcher:
            if is_live:
                await story()
            assert [f"{event.type} {event.item.name}" for event in ready(watcher)] == expected


@virtual
async def test_leaving_shows_the_old_state_at_the_new_version() -> None:
    async with pods() as world:
        await world.put("a", labels={"active": "yes"}, note="old")
        async with (
            world.watch(where(labels=labelled(active="yes")), send_initial_events=False) as watcher,
            world.watch(send_initial_events=False) as every,
        ):
            left = await world.put("a", labels={"active": "no"}, note="new")
            gone = await world.delete("a")
            (event,) = ready(watcher)
            shown = obj(event)["metadata"]
            assert (event.type, shown["labels"], shown["annotations"]) == (DELETED, {"active": "yes"}, {"note": "old"})
            assert (shown["resourceVersion"], event.revision) == (str(left), left)
            *_, deleted = ready(every)
            shown = obj(deleted)["metadata"]
            assert (deleted.type, shown["annotations"]) == (DELETED, {"note": "new"})
            assert (shown["resourceVersion"], deleted.revision) == (str(gone), gone)


@virtual
@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (where(), ["ADDED a", "MODIFIED a", "ADDED b", "MODIFIED a", "DELETED a"]),
        (where("default"), ["ADDED a", "MODIFIED a", "MODIFIED a", "DELETED a"]),
        (where("other"), ["ADDED b"]),
        (where("default", name="a"), ["ADDED a", "MODIFIED a", "MODIFIED a", "DELETED a"]),
        (where("default", metadata_name="b"), []),
        (where(metadata_name="b"), ["ADDED b"]),
        (where(metadata_name="!b"), ["ADDED a", "MODIFIED a", "MODIFIED a", "DELETED a"]),
        (where(node="n1"), ["ADDED a", "MODIFIED a", "DELETED a"]),
        (where(node=""), ["ADDED a", "DELETED a", "ADDED b"]),
        (where(node="n2"), []),
        (where(node="!n2"), ["ADDED a", "MODIFIED a", "ADDED b", "MODIFIED a", "DELETED a"]),
        (where(phase="Running"), ["ADDED a", "DELETED a"]),
        (where(phase="Running", node="n1"), ["ADDED a", "DELETED a"]),
        (where("other", node="n1"), []),
    ],
    ids=str,
)
async def test_selections(selection: ObjectSelection, expected: list[str]) -> None:
    async with pods() as world, world.watch(selection, send_initial_events=False) as watcher:
        await world.put("a")
        await world.put("a", node="n1")
        await world.put("b", "other")
        await world.put("a", node="n1", phase="Running")
        await world.delete("a")
        assert [f"{event.type} {event.item.name}" for event in ready(watcher)] == expected


@virtual
async def test_iteration_gives_what_is_ready_and_waits() -> None:
    async with pods() as world, world.watch() as watcher:
        batches: list[list[tuple[str, str]]] = []

        async def read() -> None:
            async for events in watcher:
                batches.append(shown_events(events))
                if events[-1].item.name == "d":
                    return

        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(read())
            await world.put("a")
            await asyncio.sleep(1)
            await world.put("b")
            await world.put("c")
            await world.put("d")
            await reading
        assert [event for batch in batches for event in batch] == [(ADDED, name) for name in "abcd"]
        assert batches[0] == [(ADDED, "a")]


@virtual
async def test_many_initial_events_come_in_slices() -> None:
    async with pods() as world:
        for i in range(1200):
            await world.put(f"p{i:04}")
        async with world.watch(allow_bookmarks=True) as watcher:
            await world.put("p9999")
            sizes = []
            async for events in watcher:
                sizes.append(len(events))
                if sum(sizes) == 1202:
                    break
            assert sizes == [500, 500, 202]


@virtual
async def test_it_ends_quietly_when_its_time_is_over() -> None:
    async with pods() as world, world.watch(timeout_s=5) as watcher:
        await world.put("a")
        assert [shown_events(events) async for events in watcher] == [[(ADDED, "a")]]
        assert asyncio.get_running_loop().time() == pytest.approx(5)


@virtual
async def test_events_do_not_keep_it_going_after_its_time() -> None:
    async with pods() as world, asyncio.TaskGroup() as tasks:

        async def write() -> None:
            for number in range(100):
                await world.put("a", number=number)
                await asyncio.sleep(0.25)

        writing = tasks.create_task(write())
        async with world.watch(timeout_s=2) as watcher:
            count = sum([len(events) async for events in watcher])
        assert count in (8, 9)
        assert asyncio.get_running_loop().time() == pytest.approx(2, abs=0.3)
        writing.cancel()


@virtual
async def test_bookmarks_come_every_minute_and_before_the_end() -> None:
    async with pods() as world:
        loop = asyncio.get_running_loop()
        at: list[tuple[int, int]] = []
        await world.put("a")

        async def others() -> None:
            for _ in range(30):
                await world.backend.put("/registry/secrets/default/s", b"{}")
                await asyncio.sleep(5)

        async with asyncio.TaskGroup() as tasks, world.watch(timeout_s=150, allow_bookmarks=True) as watcher:
            tasks.create_task(others())
            async for events in watcher:
                at += [(round(loop.time()), event.revision) for event in events if event.type == BOOKMARK]
        assert [time for time, _ in at] == [0, 60, 120, 148]
        revisions = [revision for _, revision in at]
        assert revisions == sorted(set(revisions))
        plain = json.loads(events[-1].frame())["object"]
        assert plain == {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(revisions[-1])}}


@virtual
async def test_a_short_watch_gets_no_bookmark_before_its_end() -> None:
    async with pods() as world:
        await world.put("a")
        async with world.watch(timeout_s=1, allow_bookmarks=True, send_initial_events=False) as watcher:
            assert [events async for events in watcher] == []


@virtual
async def test_no_bookmark_without_news_or_without_leave() -> None:
    async with pods() as world:
        await world.put("a")
        async with (
            world.watch(timeout_s=100, allow_bookmarks=True, send_initial_events=False) as quiet,
            world.watch(timeout_s=100, send_initial_events=False) as refused,
        ):
            assert [events async for events in quiet] == []
            assert [events async for events in refused] == []


@virtual
@pytest.mark.parametrize("limits", [WatchLimits(events=10), WatchLimits(bytes=12_000)], ids=["events", "bytes"])
async def test_a_slow_watcher_is_cut_off_alone(limits: WatchLimits) -> None:
    async with pods(CacherConfig(watch=limits)) as world, world.watch() as slow, world.watch() as other:
        events = []
        for i in range(30):
            await world.put(f"p{i:02}", pad="x" * 1000)
            events += shown_events(ready(other))
        assert len(events) == 30
        assert slow.pop_ready() == []
        with pytest.raises(TooSlow):
            await anext(slow)
        stats = world.cacher.stats()
        assert (stats.cut_off, stats.watchers, stats.queued_events) == (1, 1, 0)


@virtual
async def test_a_long_history_does_not_make_a_watcher_slow() -> None:
    async with pods(CacherConfig(watch=WatchLimits(events=10))) as world:
        start = str(world.cacher.revision)
        for i in range(600):
            await world.put(f"p{i:03}")
        async with world.watch(version=start) as watcher, world.watch() as another:
            assert len(ready(watcher)) == len(ready(another)) == 600


@virtual
async def test_events_before_the_end_are_delivered() -> None:
    async with pods() as world:
        await world.put("a")
        async with world.watch() as watcher:
            await world.put("b")
            watcher.end(VersionExpired("over"))
            assert shown_events(await anext(watcher)) == [(ADDED, "a"), (ADDED, "b")]
            with pytest.raises(VersionExpired, match="over"):
                await anext(watcher)


@virtual
async def test_watchers_end_with_the_cacher() -> None:
    async with MemoryBackend(clock=RealClock()) as backend:
        async with running(backend) as cacher:
            watcher = cacher.watch(WatchQuery())
            await watcher.__aenter__()
        with pytest.raises(WatchClosed, match="the watch cache of pods has stopped"):
            await anext(watcher)
        await watcher.__aexit__(None, None, None)


@virtual
async def test_an_event_is_encoded_once_for_all() -> None:
    class Names:
        calls = 0

        def __init__(self, key: Hashable) -> None:
            self.key = key

        def frame(self, type: str, item: Item) -> bytes:
            Names.calls += 1
            return f"{self.key} {type} {item.name}\n".encode()

    async with pods() as world, world.watch() as cluster_wide, world.watch(where("default")) as namespaced:
        await world.put("a")
        (first,), (second,) = ready(cluster_wide), ready(namespaced)
        assert first is second
        assert first.frame() is first.frame()
        assert json.loads(first.frame()) == {"type": "ADDED", "object": json.loads(first.item.raw)}
        assert first.frame().endswith(b"}\n")
        assert first.frame(Names("x")) is first.frame(Names("x"))
        assert first.frame(Names("y")) == b"y ADDED a\n"
        assert Names.calls == 2


@virtual
async def test_equal_queries_share_a_group_and_leave_nothing_behind() -> None:
    async with pods() as world:
        routes = world.cacher._state.routes
        selections = [
            where(),
            where("default"),
            where("default", name="a"),
            where(metadata_name="a"),
            where(node="n1"),
            where(labels=labelled(app="x")),
        ]
        async with asyncio.TaskGroup() as tasks:
            left = asyncio.Event()

            async def hold(selection: ObjectSelection) -> None:
                async with world.watch(selection):
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
