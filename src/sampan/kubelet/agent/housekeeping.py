"""What is done again and again although nobody said that anything had changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.orphans import Orphans
from sampan.kubelet.records import Records, Stage
from sampan.kubelet.sync_loop import SyncLoop
from sampan.machinery.clock import Clock

log = logging.getLogger(__name__)


class Housekeeping:
    def __init__(
        self,
        *,
        config: AgentConfig,
        records: Records,
        sync_loop: SyncLoop,
        clock: Clock,
        orphans: Orphans,
        is_complete: Callable[[], bool],
    ) -> None:
        """`is_complete`: every source of pods has told what it has; before that, nothing counts as left behind."""
        self._config, self._records, self._sync_loop, self._clock = config, records, sync_loop, clock
        self._orphans, self._is_complete = orphans, is_complete

    async def relist(self) -> None:
        """Look at every pod, until cancelled."""
        while True:
            await self._clock.sleep(self._config.relist_s)
            for record in list(self._records.values()):
                if record.stage is not Stage.TERMINATED:
                    self._sync_loop.dispatch_work(record.uid)

    async def run(self) -> None:
        """Look for what nobody wants, until cancelled; only once the API server's pods are known."""
        while True:
            await self._clock.sleep(self._config.relist_s)
            await self.remove_orphans()

    async def remove_orphans(self, known: Collection[str] = ()) -> None:
        """All that is left of pods but of those uids, and of those that the kubelet has."""
        if not self._is_complete():
            return
        try:
            found = await self._orphans.remove({*known, *self._records})
        except Exception:  # it is looked again soon
            log.exception("cannot list orphaned pods")
            return
        for uid in found:
            log.info("removed orphaned pod %s", uid)


__all__ = ["Housekeeping"]
