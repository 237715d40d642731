"""The watch hub: routes of events to watches, and slow watches that read from the log."""

from contextlib import AsyncExitStack

import pytest

from sampan.host.clock import VirtualClock
from sampan.storage.backend import Compacted, EventBatch, StoreEvent
from sampan.storage.memory import MemoryBackend
from sampan.storage.watch_hub import QUEUED_BYTES, QUEUED_EVENTS, WatchHub


async def _fail_to_read_log(prefix: str, after: int, through: int) -> EventBatch:
    raise AssertionError("nothing to read")


PREFIXES = ["", "/", "/registry/", "/registry/pods/", "/registry/pods/ns/", "/registry/po", "/registry/pods/ns/a"]
KEYS = ["/registry/pods/ns/a", "/registry/pods/ns/b", "/registry/pods/x", "/registry/nodes/n", "/other", "none"]


class RecordedKeys:
    def __init__(self) -> None:
        self.keys: list[str] = []

    def __call__(self, batch: EventBatch) -> None:
        self.keys += [event.key for event in batch.events]


def _publish_all(hub: WatchHub) -> None:
    for key in KEYS:
        hub.publish([StoreEvent(hub.revision + 1, key, b"x", hub.revision + 1)], hub.revision + 1)


async def test_events_reach_the_watches_of_their_prefixes() -> None:
    """Routes are computed again when a watch is opened or closed."""

    hub = WatchHub(revision=1, read_log=_fail_to_read_log)
    received = {prefix: RecordedKeys() for prefix in PREFIXES}
    async with AsyncExitStack() as watches:
        for count, prefix in enumerate(PREFIXES, 1):
            await watches.enter_async_context(hub.watch(prefix, after=hub.revision, on_batch=received[prefix]))
            _publish_all(hub)
            for opened in PREFIXES[:count]:
                assert received[opened].keys == [key for key in KEYS if key.startswith(opened)]
                received[opened].keys.clear()
    _publish_all(hub)
    assert not any(watch.keys for watch in received.values())


async def test_slow_watch_reads_missed_events_from_the_log() -> None:
    async with MemoryBackend(clock=VirtualClock()) as backend, backend.watch("/", after=1) as watch:
        for i in range(QUEUED_EVENTS + 500):
            await backend.put(f"/{i % 50}", b"x")
        revisions: list[int] = []
        batches = aiter(watch)
        while len(revisions) < QUEUED_EVENTS + 500:
            revisions += [event.revision for event in (await anext(batches)).events]
        assert revisions == list(range(2, QUEUED_EVENTS + 502))


async def test_slow_watch_behind_the_compaction_raises_compacted() -> None:
    async with MemoryBackend(clock=VirtualClock()) as backend, backend.watch("/", after=1) as watch:
        for _ in range(40):
            await backend.put("/a", bytes(QUEUED_BYTES // 30))
        await backend.compact(30)
        with pytest.raises(Compacted) as caught:
            await anext(aiter(watch))
        assert caught.value.compacted == 30
