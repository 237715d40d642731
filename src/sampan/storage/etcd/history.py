"""How far back the history of etcd reaches, which etcd reports only to watches."""

import asyncio
from collections.abc import Sequence

from sampan.storage.backend import Compacted, Event, StorageError
from sampan.storage.etcd.stream import WatchStream


class _Probe:
    """A watch from a compacted revision, which etcd cancels with the oldest available revision."""

    wants_own_keys_only = False

    def __init__(self, position: int) -> None:
        self.position = position
        self.refusal: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()

    def on_revisions(self, events: Sequence[Event], position: int) -> None:
        self._settle(None)

    def on_lost(self, error: StorageError) -> None:
        self._settle(error)

    def _settle(self, refusal: StorageError | None) -> None:
        if not self.refusal.done():
            self.refusal.set_result(refusal)


async def compacted_at(stream: WatchStream, revision: int, *, current: int, timeout_s: float) -> Compacted:
    """Return the error for a read at `revision`, which etcd has rejected as compacted.

    If the probe gets no response in time, the error assumes the smallest possible compacted revision.
    """
    probe = _Probe(revision)
    number = stream.subscribe(probe)
    try:
        async with asyncio.timeout(timeout_s):
            refusal = await probe.refusal
    except TimeoutError:
        refusal = None
    finally:
        stream.unsubscribe(number)
    return Compacted(refusal.compacted if isinstance(refusal, Compacted) else revision + 1, current)
