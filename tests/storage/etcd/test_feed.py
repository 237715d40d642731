"""The feed gives each watch its missing events: from its log, from etcd, or live."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sampan.storage.backend import BackendClosed, Compacted, EventBatch, OnBatch, StorageError, StoreEvent
from sampan.storage.etcd.feed import EventFeed
from sampan.storage.etcd.proto import load
from sampan.storage.etcd.stream import StreamSubscriber, WatchStream, _StreamConnection
from sampan.storage.etcd.watch import MAX_QUEUED, EtcdWatch
from sampan.storage.etcd.wire import KeyCodec

PODS = "/registry/pods/"


class _Stream:
    """A fake gRPC stream, whose events the test delivers."""

    def __init__(self) -> None:
        self.subscribers: dict[int, StreamSubscriber] = {}
        self.progress_requests = 0

    def subscribe(self, subscriber: StreamSubscriber, *, is_current: bool = False) -> int:
        self.subscribers[len(self.subscribers) + 1] = subscriber
        return len(self.subscribers)

    def unsubscribe(self, number: int) -> None:
        del self.subscribers[number]

    def request_progress(self) -> None:
        self.progress_requests += 1

    @property
    def catch_up(self) -> StreamSubscriber:
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


def _deliver(feed: StreamSubscriber, revisions: Sequence[int], prefix: str = PODS) -> None:
    for revision in revisions:
        feed.on_revisions(_events(revision, prefix=prefix), revision)


async def _read_revisions(watch: EtcdWatch, count: int) -> list[int]:
    revisions: list[int] = []
    while len(revisions) < count:
        revisions += [event.revision for event in (await anext(watch)).events]
    return revisions


async def test_watch_starts_with_the_events_that_the_feed_has_kept() -> None:
    feed, stream = _feed()
    _deliver(feed, range(11, 20))
    _deliver(feed, [20], prefix="/registry/secrets/")
    async with _watch(feed, after=15) as watch:
        _deliver(feed, [21])
        assert await _read_revisions(watch, 5) == [16, 17, 18, 19, 21]
    assert len(stream.subscribers) == 1


async def test_older_watch_catches_up_from_etcd_and_joins_the_feed() -> None:
    feed, stream = _feed()
    _deliver(feed, [11, 12])
    async with _watch(feed, after=5) as watch:
        catch_up = stream.catch_up
        _deliver(feed, [13])
        _deliver(catch_up, range(6, 10))
        assert await _read_revisions(watch, 4) == [6, 7, 8, 9], "live events wait until the watch has caught up"
        _deliver(catch_up, [10])
        assert len(stream.subscribers) == 1
        assert await _read_revisions(watch, 4) == [10, 11, 12, 13]
        _deliver(feed, [14])
        assert await _read_revisions(watch, 1) == [14]


async def test_closing_a_watch_that_catches_up_ends_its_etcd_watch() -> None:
    feed, stream = _feed()
    async with _watch(feed, after=5):
        assert len(stream.subscribers) == 2
    assert len(stream.subscribers) == 1


async def test_watch_from_a_compacted_revision_raises_compacted() -> None:
    feed, stream = _feed()
    async with _watch(feed, after=5) as watch:
        stream.catch_up.on_lost(Compacted(8, 10))
        with pytest.raises(Compacted):
            await anext(watch)


async def test_slow_watch_has_a_bounded_queue_and_misses_no_event() -> None:
    feed, _ = _feed()
    last = 10 + MAX_QUEUED + 2000
    async with _watch(feed, after=10) as watch:
        _deliver(feed, range(11, last + 1))
        assert watch._queued == MAX_QUEUED + 1
        assert await _read_revisions(watch, last - 10) == list(range(11, last + 1))
        _deliver(feed, [last + 1])
        assert await _read_revisions(watch, 1) == [last + 1]


async def test_watch_slower_than_the_kept_events_catches_up_from_etcd() -> None:
    feed, stream = _feed(max_events=100)
    last = 10 + MAX_QUEUED + 2000
    async with _watch(feed, after=10) as watch:
        _deliver(feed, range(11, last + 1))
        queued = 10 + MAX_QUEUED + 1
        assert await _read_revisions(watch, MAX_QUEUED + 1) == list(range(11, queued + 1))
        waiting = asyncio.ensure_future(_read_revisions(watch, last - queued))
        await asyncio.sleep(0)
        assert stream.catch_up.position == queued
        stream.catch_up.on_revisions(_events(*range(queued + 1, last - 50)), last - 51)
        assert await waiting == list(range(queued + 1, last + 1))
        assert len(stream.subscribers) == 1


async def test_progress_is_reported_when_the_feed_reaches_the_current_revision() -> None:
    feed, stream = _feed()
    batches: list[EventBatch] = []
    async with _watch(feed, after=10, on_batch=batches.append, current=12) as watch:
        progress = asyncio.ensure_future(watch.request_progress())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert stream.progress_requests == 1
        _deliver(feed, [11], prefix="/other/")
        await asyncio.sleep(0)
        assert not progress.done()
        _deliver(feed, [12], prefix="/other/")
        await progress
        assert batches == [EventBatch((), 12)]


async def test_progress_requested_while_catching_up_follows_the_events() -> None:
    feed, stream = _feed()
    batches: list[EventBatch] = []
    async with _watch(feed, after=8, on_batch=batches.append, current=10) as watch:
        await watch.request_progress()
        assert batches == []
        _deliver(stream.catch_up, [9, 10])
        assert [(len(batch.events), batch.revision) for batch in batches] == [(1, 9), (1, 10), (0, 10)]


async def test_events_of_several_revisions_are_routed_by_prefix() -> None:
    feed, _ = _feed()
    pods: list[EventBatch] = []
    everything: list[EventBatch] = []
    async with (
        _watch(feed, after=10, on_batch=pods.append),
        _watch(feed, after=10, prefix="/registry/", on_batch=everything.append),
    ):
        events = _events(11) + _events(12, prefix="/registry/nodes/") + _events(13)
        feed.on_revisions(events, 13)
    assert [[event.revision for event in batch.events] for batch in pods] == [[11, 13]]
    assert everything == [EventBatch(events, 13)]


async def test_lost_feed_ends_its_watches_and_restarts_after_the_compaction() -> None:
    feed, _ = _feed()
    async with _watch(feed, after=10) as watch:
        _deliver(feed, [11])
        feed.on_lost(Compacted(50, 60))
        assert await _read_revisions(watch, 1) == [11], "events received before can still be read"
        with pytest.raises(Compacted):
            await anext(watch)
    assert feed.position == 50
    async with _watch(feed, after=55) as watch:
        _deliver(feed, [55, 56])
        assert await _read_revisions(watch, 1) == [56]


async def test_failed_feed_fails_its_watches() -> None:
    feed, _ = _feed()
    feed.on_lost(StorageError("no"))
    with pytest.raises(StorageError, match="no"):
        await feed.wait_until_reached(11)
    async with _watch(feed, after=10) as watch:
        with pytest.raises(StorageError, match="no"):
            await anext(watch)


async def test_close_wakes_all_waiting_readers() -> None:
    feed, _ = _feed()
    waiting = asyncio.ensure_future(feed.wait_until_reached(11))
    async with _watch(feed, after=10) as watch, _watch(feed, after=2) as behind:
        reading = [asyncio.ensure_future(anext(reader)) for reader in (watch, behind)]
        await asyncio.sleep(0)
        feed.close(BackendClosed("closed"))
        for task in (waiting, *reading):
            with pytest.raises(BackendClosed):
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
    subscribers: dict[int, StreamSubscriber] = {1: subscriber}
    connection = _StreamConnection(keys=KeyCodec(""), subscribers=subscribers, current=set(), is_narrow=False)
    return SimpleNamespace(subscriber=subscriber, receive=connection.receive, subscribers=subscribers)


def test_fragmented_responses_are_reassembled() -> None:
    connection = _connection()
    connection.receive(_response(11, 12, fragment=True))
    connection.receive(_response(12, fragment=True))
    assert connection.subscriber.batches == []
    connection.receive(_response(12, 13))
    assert connection.subscriber.batches == [([11, 12, 12, 12, 13], 13)]


def test_events_repeated_after_a_reconnect_are_dropped() -> None:
    connection = _connection()
    connection.receive(_response(9, 10, 10))
    connection.receive(_response(10, 11))
    assert connection.subscriber.batches == [([11], 11)]


@pytest.mark.parametrize("revisions", [(12,), (11, 13)])
def test_missing_revision_ends_the_subscription(revisions: tuple[int, ...]) -> None:
    connection = _connection()
    connection.receive(_response(*revisions))
    assert connection.subscriber.batches == []
    assert isinstance(connection.subscriber.lost, Compacted)
    assert connection.subscriber.lost.compacted == revisions[-1] - 1
    assert connection.subscribers == {}


def test_progress_notifications_that_may_overtake_events_are_ignored() -> None:
    pb = load()
    connection = _connection()
    connection.receive(pb.WatchResponse(watch_id=-1, header=pb.ResponseHeader(revision=99)))
    connection.receive(pb.WatchResponse(watch_id=1, header=pb.ResponseHeader(revision=99)))
    assert connection.subscriber.batches == []


def test_watch_cancelled_by_etcd_is_ended_or_reopened() -> None:
    connection = _connection()
    assert connection.receive(_response(canceled=True, compact_revision=15))
    assert isinstance(connection.subscriber.lost, Compacted)
    connection = _connection()
    assert not connection.receive(_response(canceled=True, cancel_reason="etcdserver: no leader")), (
        "the stream is opened again"
    )
    connection = _connection()
    assert connection.receive(_response(created=True, canceled=True, cancel_reason="etcdserver: permission denied"))
    assert "permission denied" in str(connection.subscriber.lost)
