import asyncio
import json
from typing import Any

import msgspec
import pytest

from sampan.api.selectors.fields import FieldTerm
from sampan.machinery.clock import RealClock
from sampan.storage.backend import Unavailable
from sampan.storage.cacher import (
    CacherConfig,
    CorruptValue,
    HistoryLimits,
    InvalidContinue,
    InvalidVersion,
    ListQuery,
    NotReady,
    ObjectSelection,
    Shape,
    TooLargeVersion,
    UnsupportedField,
    VersionExpired,
)
from sampan.storage.memory import MemoryBackend
from tests.storage.cacher.cacher_store import NODES, PODS, Labels, labelled, names, pod, pods, running, virtual, where


@virtual
async def test_a_write_is_seen_at_once() -> None:
    async with pods() as world:
        revision = await world.put("a")
        item = await world.cacher.get("default", "a")
        assert item is not None
        assert (item.name, item.namespace, item.revision) == ("a", "default", revision)
        assert json.loads(item.raw)["metadata"]["resourceVersion"] == str(revision)
        await world.delete("a")
        assert await world.cacher.get("default", "a") is None


@virtual
async def test_a_consistent_read_is_at_the_store_s_revision() -> None:
    async with pods() as world:
        await world.put("a")
        other = await world.backend.put("/registry/secrets/default/s", b"{}")
        assert (await world.list(version="0")).revision < other
        assert (await world.list()).revision == other


@virtual
async def test_a_get_waits_for_its_version() -> None:
    async with pods() as world:
        revision = await world.put("a")
        assert await world.cacher.get("default", "a", str(revision)) is not None
        assert await world.cacher.get("default", "a", "0") is not None
        async with asyncio.TaskGroup() as tasks:
            later = tasks.create_task(world.cacher.get("default", "b", str(revision + 1)))
            await asyncio.sleep(1)
            await world.put("b")
        assert later.result() is not None


@virtual
@pytest.mark.parametrize("match", ["", "NotOlderThan", "Exact"])
async def test_a_version_of_the_future_is_waited_for_and_then_refused(match: str) -> None:
    async with pods() as world:
        revision = await world.put("a")
        started = asyncio.get_running_loop().time()
        with pytest.raises(TooLargeVersion) as fault:
            await world.list(version="999999999999", match=match)
        assert str(fault.value) == f"Too large resource version: 999999999999, current: {revision}"
        assert (fault.value.cause, fault.value.retry_after_s) == ("Too large resource version", 1)
        assert 3.0 <= asyncio.get_running_loop().time() - started < 3.2
        with pytest.raises(TooLargeVersion):
            await world.cacher.get("default", "a", "999999999999")


@virtual
async def test_what_is_no_version_is_refused() -> None:
    async with pods() as world:
        with pytest.raises(InvalidVersion, match=r'^resourceVersion: Invalid value: "abc"'):
            await world.cacher.get("default", "a", "abc")
        with pytest.raises(InvalidVersion, match=r'^invalid resource version: resourceVersion: Invalid value: "abc"'):
            await world.list(version="abc")


@virtual
async def test_lists_are_in_the_order_of_keys() -> None:
    async with pods() as world:
        for namespace, name in (("b", "x"), ("a", "z"), ("a-b", "y"), ("a", "b"), ("a", "a.b")):
            await world.put(name, namespace)
        items = (await world.list()).items
        assert [(item.namespace, item.name) for item in items] == [
            ("a-b", "y"),
            ("a", "a.b"),
            ("a", "b"),
            ("a", "z"),
            ("b", "x"),
        ]
        assert names(await world.list(where("a"))) == ["a.b", "b", "z"]
        assert names(await world.list(where("none"))) == []


@virtual
@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (where(node="n1"), ["a", "c"]),
        (where(node="!n1"), ["b", "d"]),
        (where(node=""), ["d"]),
        (where(phase="Running"), ["a"]),
        (where(phase="Pending"), ["b", "c", "d"]),
        (where(node="n1", phase="Running"), ["a"]),
        (where(labels=labelled(app="web")), ["a", "b"]),
        (where(labels=labelled(app="web", tier="x")), ["b"]),
        (where(labels=labelled(app="none")), []),
        (where(labels=Labels((("app", "!=", ("web",)),))), ["c", "d"]),
        (where(labels=Labels((("app", "exists", ()),))), ["a", "b", "c"]),
        (where(labels=Labels((("app", "!", ()),))), ["d"]),
        (where(labels=Labels((("app", "in", ("web", "db")),))), ["a", "b", "c"]),
        (where(labels=labelled(app="web"), node="n1"), ["a"]),
        (where(metadata_name="b"), ["b"]),
        (where("default", metadata_name="b"), ["b"]),
        (where("other", metadata_name="b"), []),
        (where(metadata_name="!b"), ["a", "c", "d"]),
        (where("default", name="c"), ["c"]),
        (where("default", name="c", metadata_name="b"), []),
        (ObjectSelection(fields=(FieldTerm("metadata.namespace", "default"),)), ["a", "b", "c", "d"]),
        (ObjectSelection(fields=(FieldTerm("metadata.namespace", "default", is_negated=True),)), []),
        (ObjectSelection("default", fields=(FieldTerm("metadata.namespace", "other"),)), []),
        (ObjectSelection(fields=(FieldTerm("metadata.name", "a"), FieldTerm("metadata.name", "b"))), []),
        (ObjectSelection(fields=(FieldTerm("metadata.name", ""),)), []),
    ],
)
async def test_selection(selection: ObjectSelection, expected: list[str]) -> None:
    async with pods() as world:
        await world.put("a", labels={"app": "web"}, node="n1", phase="Running")
        await world.put("b", labels={"app": "web", "tier": "x"}, node="n2")
        await world.put("c", labels={"app": "db"}, node="n1")
        await world.put("d")
        old = (await world.list(selection)).revision
        assert names(await world.list(selection)) == expected
        await world.delete("a")
        await world.put("bb", labels={"app": "web"}, node="n1", phase="Running")
        assert names(await world.list(selection, str(old), match="Exact")) == expected


@virtual
async def test_an_unknown_field_is_refused() -> None:
    async with pods() as world:
        with pytest.raises(UnsupportedField, match=r"^field label not supported: spec\.x$"):
            await world.list(ObjectSelection(fields=(FieldTerm("spec.x", "1"),)))


@virtual
async def test_indexes_follow_changes() -> None:
    async with pods() as world:
        for i in range(200):
            await world.put(f"p{i:03}", labels={"app": f"a{i % 10}"}, node=f"n{i % 20}")
        app = where(labels=labelled(app="a3"))
        assert len((await world.list(app)).items) == 20
        await world.put("p003", labels={"app": "a4"}, node="n4")
        await world.put("p013")
        await world.delete("p023")
        await world.put("p999", labels={"app": "a3"}, node="n3")
        assert len((await world.list(app)).items) == 18
        assert len((await world.list(where(labels=labelled(app="a4")))).items) == 21
        assert names(await world.list(where(node="n3"))) == [*(f"p{i:03}" for i in range(43, 200, 20)), "p999"]
        for i in range(30):  # more labels than indexes are kept for
            await world.list(where(labels=labelled(**{f"l{i}": "x"})))
        assert len((await world.list(app)).items) == 18


class Paged:
    """Takes a list page by page, doing something in between."""

    def __init__(self, world: Any, **query: Any) -> None:
        self.world, self.query = world, query
        self.pages: list[list[str]] = []
        self.remaining: list[int | None] = []
        self.versions: set[int] = set()

    async def next(self, token: str = "") -> str:
        result = await self.world.list(continue_token=token, **self.query)
        self.pages.append(names(result))
        self.remaining.append(result.remaining)
        self.versions.add(result.revision)
        return str(result.continue_token)


@virtual
async def test_pages() -> None:
    async with pods() as world:
        for name in "abcde":
            await world.put(name)
            await world.put(name, "zzz")
        paged = Paged(world, selection=where("default"), limit=2)
        token = await paged.next(await paged.next(await paged.next()))
        assert paged.pages == [["a", "b"], ["c", "d"], ["e"]]
        assert paged.remaining == [3, 1, None]
        assert (token, len(paged.versions)) == ("", 1)
        whole = await world.list(where("default"), limit=5)
        assert (whole.continue_token, whole.remaining) == ("", None)


@virtual
@pytest.mark.parametrize("kept", [10_000, 1], ids=["by history", "by the store"])
async def test_pages_show_the_state_of_the_first(kept: int) -> None:
    config = CacherConfig(history=HistoryLimits(events=kept))
    async with pods(config) as world:
        for name in "abcdefgh":
            await world.put(name, "ns", labels={"v": "1"})
        paged = Paged(world, selection=where("ns"), limit=3)
        token = await paged.next()
        await world.put("cc", "ns")
        await world.delete("d", "ns")
        await world.delete("h", "ns")
        await world.put("a", "ns", labels={"v": "2"})
        await world.put("f", "ns", labels={"v": "2"})
        await world.put("x", "aaa")
        token = await paged.next(token)
        await world.delete("g", "ns")
        token = await paged.next(token)
        assert paged.pages == [["a", "b", "c"], ["d", "e", "f"], ["g", "h"]]
        assert paged.remaining == [5, 2, None]
        assert (token, len(paged.versions)) == ("", 1)


@virtual
async def test_pages_with_a_selector_do_not_count_the_rest() -> None:
    async with pods() as world:
        for name in "abcdef":
            await world.put(name, labels={"odd": "yes"} if name in "ace" else None)
        paged = Paged(world, selection=where("default", labels=labelled(odd="yes")), limit=1)
        token = await paged.next(await paged.next(await paged.next()))
        assert paged.pages == [["a"], ["c"], ["e"]]
        assert paged.remaining == [None, None, None]
        # "f" does not match, but as in the real server only the next page finds that out.
        assert token
        assert not await paged.next(token)
        assert paged.pages[-1] == []


@virtual
async def test_version_zero_ignores_the_limit() -> None:
    async with pods() as world:
        for name in "abcde":
            await world.put(name)
        result = await world.list(version="0", limit=2)
        assert (names(result), result.continue_token, result.remaining) == (list("abcde"), "", None)
        token = (await world.list(limit=2)).continue_token
        await world.delete("d")
        assert names(await world.list(version="0", limit=2, continue_token=token)) == ["c", "d", "e"]


@virtual
async def test_a_version_with_a_limit_means_exactly() -> None:
    async with pods() as world:
        revision = await world.put("a")
        await world.put("b")
        assert names(await world.list(version=str(revision), limit=5)) == ["a"]
        assert names(await world.list(version=str(revision), limit=-1)) == ["a", "b"]
        assert names(await world.list(version=str(revision), limit=5, match="NotOlderThan")) == ["a", "b"]
        assert (await world.list(version=str(revision), match="Exact")).revision == revision


@virtual
@pytest.mark.parametrize("kept", [10_000, 1], ids=["the cache remembers", "the cache has forgotten"])
async def test_a_version_that_the_store_has_forgotten_is_expired(kept: int) -> None:
    async with pods(CacherConfig(history=HistoryLimits(events=kept))) as world:
        old = await world.put("a")
        for name in "bcd":
            await world.put(name)
        assert names(await world.list(version=str(old), match="Exact")) == ["a"]
        token = (await world.list(limit=2)).continue_token
        await world.put("e")
        await world.put("f")
        await world.backend.compact(await world.backend.current_revision())
        with pytest.raises(VersionExpired, match=r"^The resourceVersion for the provided list is too old\.$") as fault:
            await world.list(version=str(old), match="Exact")
        assert fault.value.continue_token == ""
        with pytest.raises(VersionExpired, match=r"^The provided continue parameter is too old to display") as fault:
            await world.list(limit=2, continue_token=token)
        again = await world.list(limit=2, continue_token=fault.value.continue_token)
        assert (names(again), again.remaining) == (["c", "d"], 2)
        assert names(await world.list(limit=2, continue_token=again.continue_token)) == ["e", "f"]


@virtual
async def test_errors_of_tokens() -> None:
    async with pods() as world:
        with pytest.raises(InvalidContinue, match=r"^invalid continue token: "):
            await world.list(continue_token="garbage")
        await world.put("a")
        await world.put("b")
        token = (await world.list(limit=1)).continue_token
        with pytest.raises(InvalidContinue, match=r"^specifying resource version is not allowed when using continue$"):
            await world.list(version="5", continue_token=token)


@virtual
async def test_a_list_as_bytes() -> None:
    async with pods() as world:
        for i in range(50):
            await world.put(f"p{i:02}", pad="x" * 1000)
        result = await world.list(limit=40)
        whole = json.loads(result.raw())
        assert (whole["kind"], whole["apiVersion"]) == ("PodList", "v1")
        assert whole["metadata"] == {
            "resourceVersion": str(result.revision),
            "continue": result.continue_token,
            "remainingItemCount": 10,
        }
        assert [item["metadata"]["name"] for item in whole["items"]] == names(result)
        assert all("kind" not in item and "apiVersion" not in item for item in whole["items"])
        chunks = list(result.chunks(10_000))
        assert 4 <= len(chunks) <= 8
        assert b"".join(chunks) == result.raw()
        empty = await world.list(where("none"))
        assert json.loads(empty.raw()) == {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": str(empty.revision)},
            "items": [],
        }


@virtual
async def test_a_list_of_custom_objects_as_bytes() -> None:
    notes = Shape(
        prefix="/registry/example.com/notes/",
        kind="Note",
        api_version="example.com/v1",
        plural="notes",
        group="example.com",
        list_kind="Notes",
        is_custom=True,
    )
    async with MemoryBackend(clock=RealClock()) as backend, running(backend, notes) as cacher:
        value = {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "a"}, "text": "x"}
        await backend.put(notes.key("default", "a"), msgspec.json.encode(value))
        result = await cacher.list(ListQuery())
        version = str(result.revision)
        assert json.loads(result.raw()) == {
            "kind": "Notes",
            "apiVersion": "example.com/v1",
            "metadata": {"resourceVersion": version, "continue": ""},
            "items": [{**value, "metadata": {"name": "a", "resourceVersion": version}}],
        }


@virtual
async def test_cluster_scoped() -> None:
    async with MemoryBackend(clock=RealClock()) as backend, running(backend, NODES) as cacher:
        for name in "ba":
            value = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}}
            await backend.put(NODES.key("", name), msgspec.json.encode(value))
        result = await cacher.list(ListQuery(limit=1))
        assert (names(result), result.remaining) == (["a"], 1)
        assert names(await cacher.list(ListQuery(limit=1, continue_token=result.continue_token))) == ["b"]
        item = await cacher.get("", "b")
        assert item is not None
        assert item.namespace == ""


@virtual
async def test_protobuf_values_are_decoded() -> None:
    def decode(value: bytes) -> bytes:
        return pod(value[4:].decode())

    async with pods(decode_value=decode) as world:
        await world.backend.put(PODS.key("default", "a"), b"k8s\0a")
        item = await world.cacher.get("default", "a")
        assert item is not None
        assert world.cacher.object(item)["metadata"] == {
            "name": "a",
            "namespace": "default",
            "resourceVersion": str(item.revision),
        }


@virtual
async def test_values_of_another_version_are_converted() -> None:
    def convert(value: bytes) -> bytes:
        return value.replace(b'"v1alpha1"', b'"v1"').replace(b'"tags"', b'"labels"')

    old = pod("a", labels={"x": "1"}).replace(b'"v1"', b'"v1alpha1"').replace(b'"labels"', b'"tags"')
    async with pods(convert_value=convert) as world:
        await world.backend.put(PODS.key("default", "a"), old)
        assert names(await world.list(where(labels=labelled(x="1")))) == ["a"]
        assert json.loads((await world.list()).items[0].raw)["apiVersion"] == "v1"
    async with pods() as world:
        await world.backend.put(PODS.key("default", "a"), old)
        await world.put("b")
        assert json.loads((await world.list()).raw())["items"][0]["apiVersion"] == "v1alpha1"


@virtual
async def test_objects_are_decoded_once() -> None:
    async with pods() as world:
        await world.put("a")
        item = await world.cacher.get("default", "a")
        assert item is not None
        assert world.cacher.object(item) is world.cacher.object(item)


@virtual
@pytest.mark.parametrize("value", [b"\xff\xff", b"[1]", b"k8s\0xyz", b"[" * 100_000, b'{"metadata":{"labels":1}}'])
async def test_a_value_that_cannot_be_read_harms_no_other(value: bytes) -> None:
    async with MemoryBackend(clock=RealClock()) as backend:
        await backend.put(PODS.key("default", "old"), value)
        await backend.put(PODS.key("default", "good"), pod("good"))
        async with running(backend, PODS) as cacher:
            await backend.put(PODS.key("default", "new"), value)
            await backend.put(PODS.key("default", "fine"), pod("fine"))
            assert names(await cacher.list(ListQuery())) == ["fine", "good"]
            for name in ("old", "new"):
                with pytest.raises(CorruptValue, match="cannot read the stored value"):
                    await cacher.get("default", name)
            assert cacher.stats().corrupt == 2
            await backend.put(PODS.key("default", "old"), pod("old"))
            await backend.delete(PODS.key("default", "new"))
            assert names(await cacher.list(ListQuery())) == ["fine", "good", "old"]
            assert await cacher.get("default", "new") is None
            assert cacher.stats().corrupt == 0


@virtual
async def test_before_it_is_filled() -> None:
    class Slow(MemoryBackend):
        async def range(self, *args: Any, **kwargs: Any) -> Any:
            await released.wait()
            return await super().range(*args, **kwargs)

    released = asyncio.Event()
    async with Slow(clock=RealClock()) as backend, running(backend, PODS) as cacher:
        await backend.put(PODS.key("default", "a"), pod("a"))
        item = await cacher.get("default", "a")
        assert item is not None
        assert json.loads(item.raw)["metadata"]["resourceVersion"] == str(item.revision)
        with pytest.raises(NotReady, match="the watch cache of pods is not filled yet"):
            await cacher.list(ListQuery())
        released.set()
        assert names(await cacher.list(ListQuery())) == ["a"]


@virtual
async def test_many_pages_of_the_store_fill_the_cache() -> None:
    async with MemoryBackend(clock=RealClock()) as backend:
        for i in range(2500):
            await backend.put(PODS.key("default", f"p{i:04}"), pod(f"p{i:04}"))
        async with running(backend, PODS) as cacher:
            assert len((await cacher.list(ListQuery())).items) == 2500


@virtual
async def test_the_store_answers_what_the_cache_cannot_reach() -> None:
    """A watch that is silent for ever, as over a broken line."""

    class Silent(MemoryBackend):
        def watch(self, prefix: str, **kwargs: Any) -> Any:
            return super().watch("/nothing/", **kwargs)

        async def current_revision(self) -> int:
            if is_away.is_set():
                raise Unavailable("no quorum")
            return await super().current_revision()

    is_away = asyncio.Event()
    async with Silent(clock=RealClock()) as backend, running(backend, PODS) as cacher:
        await cacher.wait_ready()
        cacher._reflector._watch = None  # not even progress is heard of
        for name in "abc":
            await backend.put(PODS.key("default", name), pod(name, labels={"x": name}))
        assert await cacher.get("default", "a") is not None
        first = await cacher.list(ListQuery(limit=2))
        assert (names(first), first.remaining, first.revision) == (["a", "b"], 1, await backend.current_revision())
        assert names(await cacher.list(ListQuery(where(labels=labelled(x="b"))))) == ["b"]
        assert names(await cacher.list(ListQuery(resource_version="0"))) == []
        is_away.set()
        with pytest.raises(Unavailable):
            await cacher.list(ListQuery())
        assert names(await cacher.list(ListQuery(resource_version="0"))) == []


@virtual
async def test_stats() -> None:
    async with pods() as world:
        for name in "abc":
            await world.put(name, pad="x" * 100)
        await world.put("a")
        await world.delete("b")
        async with world.watch(version="0"):
            stats = world.cacher.stats()
        items = (await world.list()).items
        assert (stats.items, stats.item_bytes) == (2, sum(len(item.body) for item in items))
        assert (stats.history_events, stats.watchers, stats.fills, stats.cut_off) == (5, 1, 1, 0)
        assert stats.revision == await world.backend.current_revision()
