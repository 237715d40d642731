"""Node shutdown: pods end within a grace, those that the node cannot be without last."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.critical import is_critical
from sampan.kubelet.node_status import READY, Said
from sampan.kubelet.pod_status import Verdict
from sampan.kubelet.records import PodRecord, Records, Stage
from sampan.kubelet.sync_loop import SyncLoop
from sampan.machinery.clock import Clock

_TOLD = "Pod was terminated in response to imminent node shutdown."
SHUT_DOWN = Verdict(reason="Terminated", message=_TOLD, disruption=_TOLD)
NOT_READY: dict[str, Said] = {READY: ("False", "KubeletNotReady", "node is shutting down")}
REJECTED = Verdict(reason="NodeShutdown", message="Pod was rejected as the node is shutting down.")
_LOOK_S = 0.1


class Shutdown:
    def __init__(self, *, config: AgentConfig, records: Records, sync_loop: SyncLoop, clock: Clock) -> None:
        self._config, self._records, self._sync_loop, self._clock = config, records, sync_loop, clock
        self.is_under_way = False

    async def run(self) -> None:
        """Until all pods have ended, or their time is up."""
        self.is_under_way = True
        for critical_s, is_turn in (
            (self._config.shutdown_grace_s - self._config.shutdown_grace_critical_s, False),
            (self._config.shutdown_grace_critical_s, True),
        ):
            await self._end([each for each in self._left() if is_critical(each.pod) is is_turn], max(critical_s, 0.0))

    def _left(self) -> list[PodRecord]:
        return [each for each in self._records.values() if each.stage is not Stage.TERMINATED]

    async def _end(self, records: Sequence[PodRecord], grace_s: float) -> None:
        until = self._clock.now() + grace_s
        for record in records:
            record.verdict = record.verdict or SHUT_DOWN
            own_s = record.pod.spec.terminationGracePeriodSeconds
            record.stop_by = self._clock.now() + min(grace_s, own_s if own_s is not None else 30)
            self._sync_loop.dispatch_work(record.uid)
        while self._clock.now() < until and any(each.stage is not Stage.TERMINATED for each in records):
            await self._clock.sleep(_LOOK_S)


__all__ = ["NOT_READY", "REJECTED", "SHUT_DOWN", "Shutdown"]
