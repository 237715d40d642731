"""Pods that have a node but may not be bound yet: plug-ins asked to wait (Permit)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from sampan.machinery.clock import Clock
from sampan.scheduler.framework.contract import Code, Status
from sampan.scheduler.pod_info import PodInfo

_LONGEST_S = 15 * 60.0


class WaitingPod:
    def __init__(self, info: PodInfo, node: str, waits: Mapping[str, float]) -> None:
        self.info, self.node = info, node
        self.pending = set(waits)
        """The plug-ins that have not allowed it yet."""
        self.timeout_s = min(min(waits.values(), default=0.0), _LONGEST_S)
        self._result: asyncio.Future[Status | None] = asyncio.get_running_loop().create_future()

    def allow(self, plugin: str) -> None:
        self.pending.discard(plugin)
        if not self.pending and not self._result.done():
            self._result.set_result(None)

    def reject(self, plugin: str, message: str) -> None:
        if not self._result.done():
            self._result.set_result(Status(Code.UNSCHEDULABLE, (message,), plugin))

    async def wait(self, clock: Clock) -> Status | None:
        """None when all have allowed it; else why not."""
        plugin = next(iter(sorted(self.pending)), "")
        async with asyncio.TaskGroup() as group:
            timer = group.create_task(clock.sleep(self.timeout_s))
            why = f"rejected due to timeout after waiting {self.timeout_s:g}s at plugin {plugin}"
            timer.add_done_callback(lambda task: None if task.cancelled() else self.reject(plugin, why))
            result = await self._result
            timer.cancel()
        return result


class WaitingPods:
    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def put(self, pod: WaitingPod) -> None:
        self._pods[pod.info.uid] = pod

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)


__all__ = ["WaitingPod", "WaitingPods"]
