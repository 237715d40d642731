import asyncio
import json
from typing import Any

import msgspec
import pytest

from sampan.api.selectors.fields import FieldTerm
from sampan.host.clock import RealClock
from sampan.storage.backend import Unavailable
from sampan.storage.cacher import (
    CachedResource,
    CacherConfig,
    CorruptValue,
    HistoryLimits,
    InvalidContinue,
    InvalidVersion,
    ListQuery,
    NotReady,
    ObjectSelection,
    TooLargeVersion,
    UnsupportedField,
    VersionExpired,
)
from sampan.storage.memory import MemoryBackend
from tests.storage.cacher.cacher_store import (
    NODES,
    PODS,
    Labels,
    match_labels,
    names,
    open_pod_store,
    pod,
    run_in_virtual_time,
    running_cacher,
    select_objects,
)


@run_in_virtual_time
async def test_get_sees_preceding_writes() -> None:
    async with open_pod_store() as store:
        revision = await store.put("a")
        item = await store.cacher.get("default", "a")
        assert item is not None
        assert (item.name, item.namespace, item.revision) == ("a", "default", revision)
        assert json.loads(item.raw)["metadata"]["resourceVersion"] == str(revision)
        await store.delete("a")
        assert await store.cacher.get("default", "a") is None


@run_in_virtual_time
async def test_consistent_list_has_the_revision_of_the_store() -> None:
    async with open_pod_store() as store:
        await store.put("a")
        other = await store.backend.put("/registry/secrets/default/s", b"{}")
        assert (await store.list(version="0")).revision < other
        assert (await store.list()).revision == other


@run_in_virtual_time
async def test_get_waits_for_its_resource_version() -> None:
    async with open_pod_store() as store:
        revision = await store.put("a")
        assert await store.cacher.get("default", "a", str(revision)) is not None
        assert await store.cacher.get("default", "a", "0") is not None
        async with asyncio.TaskGroup() as tasks:
            later = tasks.create_task(store.cacher.get("default", "b", str(revision + 1)))
            await asyncio.sleep(1)
            await store.put("b")
        assert later.result() is not None


@run_in_virtual_time
@pytest.mark.parametrize("match", ["", "NotOlderThan", "Exact"])
async def test_future_resource_version_is_rejected_after_the_timeout(match: str) -> None:
    async with open_pod_store() as store:
        revision = await store.put("a")
        started = asyncio.get_running_loop().time()
        with pytest.raises(TooLargeVersion) as error:
            await store.list(version="999999999999", match=match)
        assert str(error.value) == f"Too large resource version: 999999999999, current: {revision}"
        assert (error.value.cause, error.value.retry_after_s) == ("Too large resource version", 1)
        assert 3.0 <= asyncio.get_running_loop().time() - started < 3.2
        with pytest.raises(TooLargeVersion):
            await store.cacher.get("default", "a", "999999999999")


@run_in_virtual_time
async def test_invalid_resource_version_is_rejected() -> None:
    async with open_pod_store() as store:
        with pytest.raises(InvalidVersion, match=r'^resourceVersion: Invalid value: "abc"'):
            await store.cacher.get("default", "a", "abc")
        with pytest.raises(InvalidVersion, match=r'^invalid resource version: resourceVersion: Invalid value: "abc"'):
            await store.list(version="abc")


@run_in_virtual_time
async def test_lists_are_in_the_order_of_keys() -> None:
    async with open_pod_store() as store:
        for namespace, name in (("b", "x"), ("a", "z"), ("a-b", "y"), ("a", "b"), ("a", "a.b")):
            await store.put(name, namespace)
        items = (await store.list()).items
        assert [(item.namespace, item.name) for item in items] == [
            ("a-b", "y"),
            ("a", "a.b"),
            ("a", "b"),
            ("a", "z"),
            ("b", "x"),
        ]
        assert names(await store.list(select_objects("a"))) == ["a.b", "b", "z"]
        assert names(await store.list(select_objects("none"))) == []


@run_in_virtual_time
@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (select_objects(node="n1"), ["a", "c"]),
        (select_objects(node="!n1"), ["b", "d"]),
        (select_objects(node=""), ["d"]),
        (select_objects(phase="Running"), ["a"]),
        (select_objects(phase="Pending"), ["b", "c", "d"]),
        (select_objects(node="n1", phase="Running"), ["a"]),
        (select_objects(labels=match_labels(app="web")), ["a", "b"]),
        (select_objects(labels=match_labels(app="web", tier="x")), ["b"]),
        (select_objects(labels=match_labels(app="none")), []),
        (select_objects(labels=Labels((("app", "!=", ("web",)),))), ["c", "d"]),
        (select_objects(labels=Labels((("app", "exists", ()),))), ["a", "b", "c"]),
        (select_objects(labels=Labels((("app", "!", ()),))), ["d"]),
        (select_objects(labels=Labels((("app", "in", ("web", "db")),))), ["a", "b", "c"]),
        (select_objects(labels=match_labels(app="web"), node="n1"), ["a"]),
        (select_objects(metadata_name="b"), ["b"]),
        (select_objects("default", metadata_name="b"), ["b"]),
        (select_objects("other", metadata_name="b"), []),
        (select_objects(metadata_name="!b"), ["a", "c", "d"]),
        (select_objects("default", name="c"), ["c"]),
        (select_objects("default", name="c", metadata_name="b"), []),
        (ObjectSelection(fields=(FieldTerm("metadata.namespace", "default"),)), ["a", "b", "c", "d"]),
        (ObjectSelection(fields=(FieldTerm("metadata.namespace", "default", is_negated=True),)), []),
        (ObjectSelection("default", fields=(FieldTerm("metadata.namespace", "other"),)), []),
        (ObjectSelection(fields=(FieldTerm("metadata.name", "a"), FieldTerm("metadata.name", "b"))), []),
        (ObjectSelection(fields=(FieldTerm("metadata.name", ""),)), []),
    ],
)
async def test_list_with_selectors(selection: ObjectSelection, expected: list[str]) -> None:
    async with open_pod_store() as store:
        await store.put("a", labels={"app": "web"}, node="n1", phase="Running")
        await store.put("b", labels={"app": "web", "tier": "x"}, node="n2")
        await store.put("c", labels={"app": "db"}, node="n1")
        await store.put("d")
        old = (await store.list(selection)).revision
        assert names(await store.list(selection)) == expected
        await store.delete("a")
        await store.put("bb", labels={"app": "web"}, node="n1", phase="Running")
        assert names(await store.list(selection, str(old), match="Exact")) == expected


@run_in_virtual_time
async def test_unknown_field_selector_is_rejected() -> None:
    async with open_pod_store() as store:
        with pytest.raises(UnsupportedField, match=r"^field label not supported: spec\.x$"):
            await store.list(ObjectSelection(fields=(FieldTerm("spec.x", "1"),)))


@run_in_virtual_time
async def test_indexes_follow_changes() -> None:
    async with open_pod_store() as store:
        for i in range(200):
            await store.put(f"p{i:03}", labels={"app": f"a{i % 10}"}, node=f"n{i % 20}")
        app = select_objects(labels=match_labels(app="a3"))
        assert len((await store.list(app)).items) == 20
        await store.put("p003", labels={"app": "a4"}, node="n4")
        await store.put("p013")
        await store.delete("p023")
        await store.put("p999", labels={"app": "a3"}, node="n3")
        assert len((await store.list(app)).items) == 18
        assert len((await store.list(select_objects(labels=match_labels(app="a4")))).items) == 21
        assert names(await store.list(select_objects(node="n3"))) == [*(f"p{i:03}" for i in range(43, 200, 20)), "p999"]
        for i in range(30):  # more labels than there are indexes
            await store.list(select_objects(labels=match_labels(**{f"l{i}": "x"})))
        assert len((await store.list(app)).items) == 18


class Paged:
    """Reads a list page by page, so that a test can make changes between pages."""

    def __init__(self, store: Any, **query: Any) -> None:
        self.store, self.query = store, query
        self.pages: list[list[str]] = []
        self.remaining: list[int | None] = []
        self.versions: set[int] = set()

    async def read_page(self, token: str = "") -> str:
        result = await self.store.list(continue_token=token, **self.query)
        self.pages.append(names(result))
        self.remaining.append(result.remaining)
        self.versions.add(result.revision)
        return str(result.continue_token)


@run_in_virtual_time
async def test_list_in_pages() -> None:
    async with open_pod_store() as store:
        for name in "abcde":
            await store.put(name)
            await store.put(name, "zzz")
        paged = Paged(store, selection=select_objects("default"), limit=2)
        token = await paged.read_page(await paged.read_page(await paged.read_page()))
        assert paged.pages == [["a", "b"], ["c", "d"], ["e"]]
        assert paged.remaining == [3, 1, None]
        assert (token, len(paged.versions)) == ("", 1)
        whole = await store.list(select_objects("default"), limit=5)
        assert (whole.continue_token, whole.remaining) == ("", None)


@run_in_virtual_time
@pytest.mark.parametrize("kept", [10_000, 1], ids=["from history", "from the store"])
async def test_pages_show_the_state_at_the_first_page(kept: int) -> None:
    config = CacherConfig(history=HistoryLimits(events=kept))
    async with open_pod_store(config) as store:
        for name in "abcdefgh":
            await store.put(name, "ns", labels={"v": "1"})
        paged = Paged(store, selection=select_objects("ns"), limit=3)
        token = await paged.read_page()
        await store.put("cc", "ns")
        await store.delete("d", "ns")
        await store.delete("h", "ns")
        await store.put("a", "ns", labels={"v": "2"})
        await store.put("f", "ns", labels={"v": "2"})
        await store.put("x", "aaa")
        token = await paged.read_page(token)
        await store.delete("g", "ns")
        token = await paged.read_page(token)
        assert paged.pages == [["a", "b", "c"], ["d", "e", "f"], ["g", "h"]]
        assert paged.remaining == [5, 2, None]
        assert (token, len(paged.versions)) == ("", 1)


@run_in_virtual_time
async def test_pages_with_a_selector_have_no_remaining_item_count() -> None:
    async with open_pod_store() as store:
        for name in "abcdef":
            await store.put(name, labels={"odd": "yes"} if name in "ace" else None)
        paged = Paged(store, selection=select_objects("default", labels=match_labels(odd="yes")), limit=1)
        token = await paged.read_page(await paged.read_page(await paged.read_page()))
        assert paged.pages == [["a"], ["c"], ["e"]]
        assert paged.remaining == [None, None, None]
        # "f" does not match, but as in Kubernetes only the next page shows that.
        assert token
        assert not await paged.read_page(token)
        assert paged.pages[-1] == []


@run_in_virtual_time
async def test_resource_version_zero_ignores_the_limit() -> None:
    async with open_pod_store() as store:
        for name in "abcde":
            await store.put(name)
        result = await store.list(version="0", limit=2)
        assert (names(result), result.continue_token, result.remaining) == (list("abcde"), "", None)
        token = (await store.list(limit=2)).continue_token
        await store.delete("d")
        assert names(await store.list(version="0", limit=2, continue_token=token)) == ["c", "d", "e"]


@run_in_virtual_time
async def test_resource_version_with_a_limit_means_exact() -> None:
    async with open_pod_store() as store:
        revision = await store.put("a")
        await store.put("b")
        assert names(await store.list(version=str(revision), limit=5)) == ["a"]
        assert names(await store.list(version=str(revision), limit=-1)) == ["a", "b"]
        assert names(await store.list(version=str(revision), limit=5, match="NotOlderThan")) == ["a", "b"]
        assert (await store.list(version=str(revision), match="Exact")).revision == revision


@run_in_virtual_time
@pytest.mark.parametrize("kept", [10_000, 1], ids=["in the history", "not in the history"])
async def test_compacted_resource_version_is_expired(kept: int) -> None:
    async with open_pod_store(CacherConfig(history=HistoryLimits(events=kept))) as store:
        old = await store.put("a")
        for name in "bcd":
            await store.put(name)
        assert names(await store.list(version=str(old), match="Exact")) == ["a"]
        token = (await store.list(limit=2)).continue_token
        await store.put("e")
        await store.put("f")
        await store.backend.compact(await store.backend.current_revision())
        with pytest.raises(VersionExpired, match=r"^The resourceVersion for the provided list is too old\.$") as error:
            await store.list(version=str(old), match="Exact")
        assert error.value.continue_token == ""
        with pytest.raises(VersionExpired, match=r"^The provided continue parameter is too old to display") as error:
            await store.list(limit=2, continue_token=token)
        again = await store.list(limit=2, continue_token=error.value.continue_token)
        assert (names(again), again.remaining) == (["c", "d"], 2)
        assert names(await store.list(limit=2, continue_token=again.continue_token)) == ["e", "f"]


@run_in_virtual_time
async def test_invalid_continue_tokens_are_rejected() -> None:
    async with open_pod_store() as store:
        with pytest.raises(InvalidContinue, match=r"^invalid continue token: "):
            await store.list(continue_token="garbage")
        await store.put("a")
        await store.put("b")
        token = (await store.list(limit=1)).continue_token
        with pytest.raises(InvalidContinue, match=r"^specifying resource version is not allowed when using continue$"):
            await store.list(version="5", continue_token=token)


@run_in_virtual_time
async def test_list_serialization() -> None:
    async with open_pod_store() as store:
        for i in range(50):
            await store.put(f"p{i:02}", pad="x" * 1000)
        result = await store.list(limit=40)
        whole = json.loads(result.join_chunks())
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
        assert b"".join(chunks) == result.join_chunks()
        empty = await store.list(select_objects("none"))
        assert json.loads(empty.join_chunks()) == {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": str(empty.revision)},
            "items": [],
        }


@run_in_virtual_time
async def test_list_serialization_of_custom_resources() -> None:
    notes = CachedResource(
        prefix="/registry/example.com/notes/",
        kind="Note",
        api_version="example.com/v1",
        plural="notes",
        group="example.com",
        list_kind="Notes",
        is_custom=True,
    )
    async with MemoryBackend(clock=RealClock()) as backend, running_cacher(backend, notes) as cacher:
        value = {"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "a"}, "text": "x"}
        await backend.put(notes.key("default", "a"), msgspec.json.encode(value))
        result = await cacher.list(ListQuery())
        version = str(result.revision)
        assert json.loads(result.join_chunks()) == {
            "kind": "Notes",
            "apiVersion": "example.com/v1",
            "metadata": {"resourceVersion": version, "continue": ""},
            "items": [{**value, "metadata": {"name": "a", "resourceVersion": version}}],
        }


@run_in_virtual_time
async def test_cluster_scoped_resource() -> None:
    async with MemoryBackend(clock=RealClock()) as backend, running_cacher(backend, NODES) as cacher:
        for name in "ba":
            value = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}}
            await backend.put(NODES.key("", name), msgspec.json.encode(value))
        result = await cacher.list(ListQuery(limit=1))
        assert (names(result), result.remaining) == (["a"], 1)
        assert names(await cacher.list(ListQuery(limit=1, continue_token=result.continue_token))) == ["b"]
        item = await cacher.get("", "b")
        assert item is not None
        assert item.namespace == ""


@run_in_virtual_time
async def test_protobuf_values_are_decoded() -> None:
    def decode(value: bytes) -> bytes:
        return pod(value[4:].decode())

    async with open_pod_store(decode_value=decode) as store:
        await store.backend.put(PODS.key("default", "a"), b"k8s\0a")
        item = await store.cacher.get("default", "a")
        assert item is not None
        assert store.cacher.object(item)["metadata"] == {
            "name": "a",
            "namespace": "default",
            "resourceVersion": str(item.revision),
        }


@run_in_virtual_time
async def test_values_of_another_version_are_converted() -> None:
    def convert(value: bytes) -> bytes:
        return value.replace(b'"v1alpha1"', b'"v1"').replace(b'"tags"', b'"labels"')

    old = pod("a", labels={"x": "1"}).replace(b'"v1"', b'"v1alpha1"').replace(b'"labels"', b'"tags"')
    async with open_pod_store(convert_value=convert) as store:
        await store.backend.put(PODS.key("default", "a"), old)
        assert names(await store.list(select_objects(labels=match_labels(x="1")))) == ["a"]
        assert json.loads((await store.list()).items[0].raw)["apiVersion"] == "v1"
    async with open_pod_store() as store:
        await store.backend.put(PODS.key("default", "a"), old)
        await store.put("b")
        assert json.loads((await store.list()).join_chunks())["items"][0]["apiVersion"] == "v1alpha1"


@run_in_virtual_time
async def test_objects_are_decoded_once() -> None:
    async with open_pod_store() as store:
        await store.put("a")
        item = await store.cacher.get("default", "a")
        assert item is not None
        assert store.cacher.object(item) is store.cacher.object(item)


@run_in_virtual_time
@pytest.mark.parametrize("value", [b"\xff\xff", b"[1]", b"k8s\0xyz", b"[" * 100_000, b'{"metadata":{"labels":1}}'])
async def test_corrupt_value_does_not_affect_other_objects(value: bytes) -> None:
    async with MemoryBackend(clock=RealClock()) as backend:
        await backend.put(PODS.key("default", "old"), value)
        await backend.put(PODS.key("default", "good"), pod("good"))
        async with running_cacher(backend, PODS) as cacher:
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


@run_in_virtual_time
async def test_get_succeeds_and_list_fails_before_the_cache_is_filled() -> None:
    class Slow(MemoryBackend):
        async def range(self, *args: Any, **kwargs: Any) -> Any:
            await released.wait()
            return await super().range(*args, **kwargs)

    released = asyncio.Event()
    async with Slow(clock=RealClock()) as backend, running_cacher(backend, PODS) as cacher:
        await backend.put(PODS.key("default", "a"), pod("a"))
        item = await cacher.get("default", "a")
        assert item is not None
        assert json.loads(item.raw)["metadata"]["resourceVersion"] == str(item.revision)
        with pytest.raises(NotReady, match="the watch cache of pods is not filled yet"):
            await cacher.list(ListQuery())
        released.set()
        assert names(await cacher.list(ListQuery())) == ["a"]


@run_in_virtual_time
async def test_cache_is_filled_from_several_pages_of_the_store() -> None:
    async with MemoryBackend(clock=RealClock()) as backend:
        for i in range(2500):
            await backend.put(PODS.key("default", f"p{i:04}"), pod(f"p{i:04}"))
        async with running_cacher(backend, PODS) as cacher:
            assert len((await cacher.list(ListQuery())).items) == 2500


@run_in_virtual_time
async def test_reads_fall_back_to_the_store_when_the_watch_is_silent() -> None:
    """The watch delivers nothing, as over a broken connection."""

    class Silent(MemoryBackend):
        def watch(self, prefix: str, **kwargs: Any) -> Any:
            return super().watch("/nothing/", **kwargs)

        async def current_revision(self) -> int:
            if is_unavailable.is_set():
                raise Unavailable("no quorum")
            return await super().current_revision()

    is_unavailable = asyncio.Event()
    async with Silent(clock=RealClock()) as backend, running_cacher(backend, PODS) as cacher:
        await cacher.wait_ready()
        cacher._reflector._watch = None  # no progress notifications either
        for name in "abc":
            await backend.put(PODS.key("default", name), pod(name, labels={"x": name}))
        assert await cacher.get("default", "a") is not None
        first = await cacher.list(ListQuery(limit=2))
        assert (names(first), first.remaining, first.revision) == (["a", "b"], 1, await backend.current_revision())
        assert names(await cacher.list(ListQuery(select_objects(labels=match_labels(x="b"))))) == ["b"]
        assert names(await cacher.list(ListQuery(resource_version="0"))) == []
        is_unavailable.set()
        with pytest.raises(Unavailable):
            await cacher.list(ListQuery())
        assert names(await cacher.list(ListQuery(resource_version="0"))) == []


@run_in_virtual_time
async def test_stats() -> None:
    async with open_pod_store() as store:
        for name in "abc":
            await store.put(name, pad="x" * 100)
        await store.put("a")
        await store.delete("b")
        async with store.watch(version="0"):
            stats = store.cacher.stats()
        items = (await store.list()).items
        assert (stats.items, stats.item_bytes) == (2, sum(len(item.body) for item in items))
        assert (stats.history_events, stats.watchers, stats.fills, stats.cut_off) == (5, 1, 1, 0)
        assert stats.revision == await store.backend.current_revision()
