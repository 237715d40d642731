"""Conformance tests of sig-api-machinery for watches. The first paragraph of a docstring is the official test name.

That an event is not sent is seen from the next event, since events arrive in order.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sampan.testing import Cluster
from tests.e2e.conformance.api import Api, Objects, Value, Watch

KEY = "watch-this-configmap"
ROUNDS = 100
AHEAD = 5
"""How many events the writer may be ahead of the watches."""


def set_mutation(maps: Objects, name: str, mutation: str) -> Value:
    return maps.change(name, lambda obj: obj.update(data={"mutation": mutation}))


def set_label(maps: Objects, name: str, value: str) -> Value:
    return maps.change(name, lambda obj: obj["metadata"]["labels"].update({KEY: value}))


def test_watches_with_different_label_selectors(api: Api) -> None:
    """[sig-api-machinery] Watchers should observe add, update, and delete watch notifications on configmaps
    [Conformance]"""
    maps = api.for_resource("configmaps")
    with (
        maps.watch(labelSelector=f"{KEY} in (A)") as watch_a,
        maps.watch(labelSelector=f"{KEY} in (B)") as watch_b,
        maps.watch(labelSelector=f"{KEY} in (A,B)") as watch_ab,
    ):
        happened = [("ADDED", maps.create("a", {KEY: "A"}))]
        happened += [("MODIFIED", set_mutation(maps, "a", mutation)) for mutation in ("1", "2")]
        for watch in (watch_a, watch_ab):
            assert [watch.read_event() for _ in happened] == happened
        maps.delete("a")
        for watch in (watch_a, watch_ab):
            assert watch.take(1) == [("DELETED", "a")]
        created_map = maps.create("b", {KEY: "B"})
        maps.delete("b")
        for watch in (watch_b, watch_ab):
            assert watch.read_event() == ("ADDED", created_map)
            assert watch.take(1) == [("DELETED", "b")]
        maps.create("last", {KEY: "A"})
        assert watch_a.take(1) == watch_ab.take(1) == [("ADDED", "last")]
        set_label(maps, "last", "B")
        assert watch_b.take(1) == [("ADDED", "last")]


def test_watch_from_a_resource_version(api: Api) -> None:
    """[sig-api-machinery] Watchers should be able to start watching from a specific resource version [Conformance]"""
    maps = api.for_resource("configmaps")
    maps.create("m", {KEY: "from"})
    first, second = (set_mutation(maps, "m", mutation) for mutation in ("1", "2"))
    maps.delete("m")
    with maps.watch(labelSelector=f"{KEY}=from", resourceVersion=first["metadata"]["resourceVersion"]) as events:
        assert events.read_event() == ("MODIFIED", second)
        assert events.take(1) == [("DELETED", "m")]


def test_watch_resumes_from_the_last_resource_version(api: Api) -> None:
    """[sig-api-machinery] Watchers should be able to restart watching from the last resource version observed by the
    previous watch [Conformance]"""
    maps = api.for_resource("configmaps")
    with maps.watch(labelSelector=f"{KEY}=again") as events:
        created_map = maps.create("m", {KEY: "again"})
        set_mutation(maps, "m", "1")
        assert events.read_event() == ("ADDED", created_map)
        type, last = events.read_event()
        assert type == "MODIFIED"
    second = set_mutation(maps, "m", "2")
    with maps.watch(labelSelector=f"{KEY}=again", resourceVersion=last["metadata"]["resourceVersion"]) as events:
        maps.delete("m")
        assert events.read_event() == ("MODIFIED", second)
        assert events.take(1) == [("DELETED", "m")]


def test_object_that_leaves_the_selector_is_reported_deleted(api: Api) -> None:
    """[sig-api-machinery] Watchers should observe an object deletion if it stops meeting the requirements of the
    selector [Conformance]"""
    maps = api.for_resource("configmaps")
    with maps.watch(labelSelector=f"{KEY}=right") as events:
        created_map = maps.create("m", {KEY: "right"})
        first = set_mutation(maps, "m", "1")
        set_label(maps, "m", "wrong")
        assert (events.read_event(), events.read_event()) == (("ADDED", created_map), ("MODIFIED", first))
        assert events.take(1) == [("DELETED", "m")]
        set_mutation(maps, "m", "2")
        back = set_label(maps, "m", "right")
        third = set_mutation(maps, "m", "3")
        maps.delete("m")
        assert (events.read_event(), events.read_event()) == (("ADDED", back), ("MODIFIED", third))
        assert events.take(1) == [("DELETED", "m")]


@contextmanager
def concurrent_writer(cluster: Cluster, namespace: str) -> Iterator[threading.Semaphore]:
    """Create, update and delete config maps in a thread, as far ahead as the semaphore allows."""
    room, is_over = threading.Semaphore(AHEAD), threading.Event()

    def write() -> None:
        api = Api(cluster, namespace)
        maps, number = api.for_resource("configmaps"), 0
        while room.acquire() and not is_over.is_set():
            name, turn = f"m-{number // 3}", number % 3
            if turn == 0:
                maps.create(name)
            elif turn == 1:
                set_mutation(maps, name, "1")
            else:
                maps.delete(name)
            number += 1
        api.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield room
    finally:
        is_over.set()
        room.release()
        writer.join()


def test_concurrent_watches_receive_the_same_order(api: Api, sampan_cluster: Cluster) -> None:
    """[sig-api-machinery] Watchers should receive events on concurrent watches in same order [Conformance]"""
    maps, watches = api.for_resource("configmaps"), list[Watch]()
    version = api.get(maps.collection_path)["metadata"]["resourceVersion"]
    with concurrent_writer(sampan_cluster, api.namespace) as room, ExitStack() as stack:
        for _ in range(ROUNDS):
            watches.append(stack.enter_context(maps.watch(resourceVersion=version)))
            versions = {watch.read_event()[1]["metadata"]["resourceVersion"] for watch in watches}
            assert len(versions) == 1
            (version,) = versions
            room.release()
