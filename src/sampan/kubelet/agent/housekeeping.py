"""Periodic work: resyncs all pods and removes orphaned ones."""

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
        """`is_complete` tells whether every pod source has delivered its pods; until then nothing is considered
        orphaned.
        """
        self._config, self._records, self._sync_loop, self._clock = config, records, sync_loop, clock
        self._orphans, self._is_complete = orphans, is_complete

    async def relist(self) -> None:
        """Dispatch a sync of every pod that has not terminated, periodically until cancelled."""
        while True:
            await self._clock.sleep(self._config.relist_s)
            for record in list(self._records.values()):
                if record.stage is not Stage.TERMINATED:
                    self._sync_loop.dispatch_work(record.uid)

    async def run(self) -> None:
        """Remove orphans periodically until cancelled. Start this only once the pods of the API server are known."""
        while True:
            await self._clock.sleep(self._config.relist_s)
            await self.remove_orphans()

    async def remove_orphans(self, known: Collection[str] = ()) -> None:
        """Remove what is left of pods that are neither in `known` nor in the kubelet's records."""
        if not self._is_complete():
            return
        try:
            removed_uids = await self._orphans.remove({*known, *self._records})
        except Exception:  # Retried after the next period.
            log.exception("cannot list orphaned pods")
            return
        for uid in removed_uids:
            log.info("removed orphaned pod %s", uid)
