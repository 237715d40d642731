"""The feed hands each watch what it lacks: from what it kept, from etcd, or as it comes."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sampan.storage.backend import Batch, Closed, Compacted, OnBatch, StorageError, StoreEvent
from sampan.storage.etcd.feed import EventFeed
from sampan.storage.etcd.proto import load
from sampan.storage.etcd.stream import Subscriber, WatchStream, _Connection
from sampan.storage.etcd.watch import MAX_QUEUED, EtcdWatch
from sampan.storage.etcd.wire import Keys

PODS = "/registry/pods/"


class _Stream:
    """Stands for the gRPC stream: the test says what it brings."""

    def __init__(self) -> None:
        self.subscribers: dict[int, Subscriber] = {}
        self.progress_requests = 0

    def subscribe(self, subscriber: Subscriber, *, is_current: bool = False) -> int:
        self.subscribers[len(self.subscribers) + 1] = subscriber
        return len(self.subscribers)

    def unsubscribe(self, number: int) -> None:
        del self.subscribers[number]

    def request_progress(self) -> None:
        self.progress_requests += 1

    @property
    def catch_up(self) -> Subscriber:
        [_, catch_up] = self.subscribers.values()
        return catch_up


def _feed(*, max_events: int = 20_000) -> tuple[EventFeed, _Stream]:
    stream = _Stream()
    feed = EventFeed(stream=cast(WatchStream, stream), max_events=max_events)
    feed.begin(10)
    return feed, stream


def _watch(
    feed: EventFeed, *, after: int, prefix: str = PODS, on_batch: OnBatch | None = None, current: int = 0
) -> EtcdWatch:
    async def current_revision() -> int:
        return current

    return EtcdWatch(source=feed, prefix=prefix, after=after, on_batch=on_batch, current_revision=current_revision)


def _events(*revisions: int, prefix: str = PODS) -> list[StoreEvent]:
    return [StoreEvent(revision, f"{prefix}{revision}", b"x", revision) for revision in revisions]


def _bring(feed: Subscriber, revisions: Sequence[int], prefix: str = PODS) -> None:
    for revision in revisions:
        feed.on_revisions(_events(revision, prefix=prefix), revision)


async def _read_revisions(watch: EtcdWatch, count: int) -> list[int]:
    revisions: list[int] = []
    while len(revisions) < count:
        revisions += [event.revision for event in (await anext(watch)).events]
    return revisions


async def test_a_watch_begins_with_what_was_kept() -> None:
    feed, stream = _feed()
    _bring(feed, range(11, 20))
    _bring(feed, [20], prefix="/registry/secrets/")
    async with _watch(feed, after=15) as watch:
        _bring(feed, [21])
        assert await _read_revisions(watch, 5) == [16, 17, 18, 19, 21]
    assert len(stream.subscribers) == 1


async def test_a_watch_from_further_back_catches_up_and_joins() -> None:
    feed, stream = _feed()
    _bring(feed, [11, 12])
    async with _watch(feed, after=5) as watch:
        catch_up = stream.catch_up
        _bring(feed, [13])
        _bring(catch_up, range(6, 10))
        assert await _read_revisions(watch, 4) == [6, 7, 8, 9], "what is live waits until the past has been told"
        _bring(catch_up, [10])
        assert len(stream.subscribers) == 1
        assert await _read_revisions(watch, 4) == [10, 11, 12, 13]
        _bring(feed, [14])
        assert await _read_revisions(watch, 1) == [14]


async def test_leaving_while_catching_up_ends_the_etcd_watch() -> None:
    feed, stream = _feed()
    async with _watch(feed, after=5):
        assert len(stream.subscribers) == 2
    assert len(stream.subscribers) == 1


async def test_a_watch_from_the_past_that_is_gone_is_refused() -> None:
    feed, stream = _feed()
    async with _watch(feed, after=5) as watch:
        stream.catch_up.on_lost(Compacted(8, 10))
        with pytest.raises(Compacted):
            await anext(watch)


async def test_a_slow_reader_is_bounded_and_misses_nothing() -> None:
    feed, _ = _feed()
    last = 10 + MAX_QUEUED + 2000
    async with _watch(feed, after=10) as watch:
        _bring(feed, range(11, last + 1))
        assert watch._queued == MAX_QUEUED + 1
        assert await _read_revisions(watch, last - 10) == list(range(11, last + 1))
        _bring(feed, [last + 1])
        assert await _read_revisions(watch, 1) == [last + 1]


async def test_a_very_slow_reader_catches_up_from_etcd() -> None:
    feed, stream = _feed(max_events=100)
    last = 10 + MAX_QUEUED + 2000
    async with _watch(feed, after=10) as watch:
        _bring(feed, range(11, last + 1))
        queued = 10 + MAX_QUEUED + 1
        assert await _read_revisions(watch, MAX_QUEUED + 1) == list(range(11, queued + 1))
        waiting = asyncio.ensure_future(_read_revisions(watch, last - queued))
        await asyncio.sleep(0)
        assert stream.catch_up.position == queued
        stream.catch_up.on_revisions(_events(*range(queued + 1, last - 50)), last - 51)
        assert await waiting == list(range(queued + 1, last + 1))
        assert len(stream.subscribers) == 1


async def test_progress_comes_when_the_feed_is_there() -> None:
    feed, stream = _feed()
    batches: list[Batch] = []
    async with _watch(feed, after=10, on_batch=batches.append, current=12) as watch:
        asking = asyncio.ensure_future(watch.request_progress())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert stream.progress_requests == 1
        _bring(feed, [11], prefix="/other/")
        await asyncio.sleep(0)
        assert not asking.done()
        _bring(feed, [12], prefix="/other/")
        await asking
        assert batches == [Batch((), 12)]


async def test_progress_asked_for_while_behind_comes_after_the_events() -> None:
    feed, stream = _feed()
    batches: list[Batch] = []
    async with _watch(feed, after=8, on_batch=batches.append, current=10) as watch:
        await watch.request_progress()
        assert batches == []
        _bring(stream.catch_up, [9, 10])
        assert [(len(batch.events), batch.revision) for batch in batches] == [(1, 9), (1, 10), (0, 10)]


async def test_events_of_several_revisions_are_sorted_to_their_watches() -> None:
    feed, _ = _feed()
    pods: list[Batch] = []
    everything: list[Batch] = []
    async with (
        _watch(feed, after=10, on_batch=pods.append),
        _watch(feed, after=10, prefix="/registry/", on_batch=everything.append),
    ):
        events = _events(11) + _events(12, prefix="/registry/nodes/") + _events(13)
        feed.on_revisions(events, 13)
    assert [[event.revision for event in batch.events] for batch in pods] == [[11, 13]]
    assert everything == [Batch(events, 13)]


async def test_a_lost_feed_ends_its_watches_and_begins_again() -> None:
    feed, _ = _feed()
    async with _watch(feed, after=10) as watch:
        _bring(feed, [11])
        feed.on_lost(Compacted(50, 60))
        assert await _read_revisions(watch, 1) == [11], "what was told before can still be read"
        with pytest.raises(Compacted):
            await anext(watch)
    assert feed.position == 50
    async with _watch(feed, after=55) as watch:
        _bring(feed, [55, 56])
        assert await _read_revisions(watch, 1) == [56]


async def test_a_feed_that_is_refused_refuses() -> None:
    feed, _ = _feed()
    feed.on_lost(StorageError("no"))
    with pytest.raises(StorageError, match="no"):
        await feed.reached(11)
    async with _watch(feed, after=10) as watch:
        with pytest.raises(StorageError, match="no"):
            await anext(watch)


async def test_closing_wakes_everyone() -> None:
    feed, _ = _feed()
    waiting = asyncio.ensure_future(feed.reached(11))
    async with _watch(feed, after=10) as watch, _watch(feed, after=2) as behind:
        reading = [asyncio.ensure_future(anext(reader)) for reader in (watch, behind)]
        await asyncio.sleep(0)
        feed.close(Closed("closed"))
        for task in (waiting, *reading):
            with pytest.raises(Closed):
                await task


class _Subscriber:
    wants_own_keys_only = False

    def __init__(self, position: int) -> None:
        self.position = position
        self.batches: list[tuple[list[int], int]] = []
        self.lost: StorageError | None = None

    def on_revisions(self, events: Sequence[StoreEvent], position: int) -> None:
        self.position = position
        self.batches.append(([event.revision for event in events], position))

    def on_lost(self, error: StorageError) -> None:
        self.lost = error


def _response(*revisions: int, **fields: Any) -> Any:
    pb = load()
    events = [pb.Event(kv=pb.KeyValue(key=b"/k", mod_revision=revision)) for revision in revisions]
    return pb.WatchResponse(watch_id=1, events=events, **fields)


def _connection(position: int = 10) -> SimpleNamespace:
    subscriber = _Subscriber(position)
    subscribers: dict[int, Subscriber] = {1: subscriber}
    connection = _Connection(keys=Keys(""), subscribers=subscribers, current=set(), is_narrow=False)
    return SimpleNamespace(subscriber=subscriber, receive=connection.receive, subscribers=subscribers)


def test_fragments_are_put_together() -> None:
    it = _connection()
    it.receive(_response(11, 12, fragment=True))
    it.receive(_response(12, fragment=True))
    assert it.subscriber.batches == []
    it.receive(_response(12, 13))
    assert it.subscriber.batches == [([11, 12, 12, 12, 13], 13)]


def test_what_was_seen_before_a_break_is_dropped() -> None:
    it = _connection()
    it.receive(_response(9, 10, 10))
    it.receive(_response(10, 11))
    assert it.subscriber.batches == [([11], 11)]


@pytest.mark.parametrize("revisions", [(12,), (11, 13)])
def test_a_missing_revision_is_noticed(revisions: tuple[int, ...]) -> None:
    it = _connection()
    it.receive(_response(*revisions))
    assert it.subscriber.batches == []
    assert isinstance(it.subscriber.lost, Compacted)
    assert it.subscriber.lost.compacted == revisions[-1] - 1
    assert it.subscribers == {}


def test_a_progress_mark_is_not_believed_where_it_may_overtake_events() -> None:
    pb = load()
    it = _connection()
    it.receive(pb.WatchResponse(watch_id=-1, header=pb.ResponseHeader(revision=99)))
    it.receive(pb.WatchResponse(watch_id=1, header=pb.ResponseHeader(revision=99)))
    assert it.subscriber.batches == []


def test_a_cancelled_watch() -> None:
    it = _connection()
    assert it.receive(_response(canceled=True, compact_revision=15))
    assert isinstance(it.subscriber.lost, Compacted)
    it = _connection()
    assert not it.receive(_response(canceled=True, cancel_reason="etcdserver: no leader")), "the stream is opened anew"
    it = _connection()
    assert it.receive(_response(created=True, canceled=True, cancel_reason="etcdserver: permission denied"))
    assert "permission denied" in str(it.subscriber.lost)
