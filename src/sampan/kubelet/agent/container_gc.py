"""Garbage collection of dead containers under disk pressure."""

from __future__ import annotations

import logging

from sampan.kubelet.records import Records, Stage
from sampan.runtimes.contract import Runtime, RuntimeFailure

log = logging.getLogger(__name__)


class ContainerCollector:
    def __init__(self, *, runtime: Runtime, records: Records) -> None:
        self._runtime, self._records = runtime, records

    async def remove_unused(self) -> list[str]:
        """Remove all containers, with their logs, of terminated pods, and the previous instances of containers of other
        pods. Return the UIDs of the affected pods.
        """
        uids = []
        for record in list(self._records.values()):
            try:
                if await self._removed(record.uid):
                    uids.append(record.uid)
            except RuntimeFailure as failure:
                log.warning("cannot remove dead containers of pod %s: %s", record.uid, failure.message)
        return uids

    async def _removed(self, uid: str) -> bool:
        record = self._records.get(uid)
        if record is None:  # The pod was removed while others were being processed.
            return False
        if record.stage is Stage.TERMINATED:
            if not record.is_finished or uid not in self._runtime.known_pods():
                return False
            await self._runtime.remove_pod(uid)
            return True
        before = self._runtime.pod_report(record.pod).before
        for container in before:
            await self._runtime.remove_container(record.pod, container.id)
        return bool(before)
