"""Pods with a node that are not bound yet, because plugins delay them in Permit or prepare them in PreBind.

Until it is bound, a pod can be preempted in memory, without deleting anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, Protocol

from sampan.api.values.durations import format_duration
from sampan.host.clock import Clock
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.framework.contract import Code, Status

_MAX_WAIT_S = 15 * 60.0


class PreemptablePod(Protocol):
    def preempt(self, plugin: str) -> bool:
        """Release the node and requeue the pod; return False if it is too late for that."""
        ...


class WaitingPod:
    """A pod that waits in Permit."""

    def __init__(self, info: PodInfo, node: str, waits: Mapping[str, float]) -> None:
        self.info, self.node = info, node
        self.pending = set(waits)
        """The plugins that have not allowed the pod yet."""
        self.timeout_s = min(min(waits.values(), default=0.0), _MAX_WAIT_S)
        self._result: asyncio.Future[Status | None] = asyncio.get_running_loop().create_future()

    def allow(self, plugin: str) -> None:
        self.pending.discard(plugin)
        if not self.pending:
            self._finish(None)

    def reject(self, plugin: str, message: str) -> bool:
        return self._finish(Status(Code.UNSCHEDULABLE, (message,), plugin))

    def preempt(self, plugin: str) -> bool:
        return self._finish(Status(Code.ERROR, ("waiting on permit for pod: preempted",), plugin))

    async def wait(self, clock: Clock) -> Status | None:
        """Wait for the plugins; return None when all have allowed the pod, otherwise the rejection."""
        plugin = next(iter(sorted(self.pending)), "")
        async with asyncio.TaskGroup() as group:
            timer = group.create_task(clock.sleep(self.timeout_s))
            waited = format_duration(int(self.timeout_s * 1e9))
            why = f"rejected due to timeout after waiting {waited} at plugin {plugin}"
            timer.add_done_callback(lambda task: None if task.cancelled() else self.reject(plugin, why))
            result = await self._result
            timer.cancel()
        return result

    def _finish(self, result: Status | None) -> bool:
        if self._result.done():
            return False
        self._result.set_result(result)
        return True


class PreBindPod:
    """A pod in PreBind."""

    def __init__(self) -> None:
        self._work: asyncio.Task[Status | None] | None = None
        self._why = ""

    def preempt(self, plugin: str) -> bool:
        if self._work is None or self._work.done():
            return False
        self._why = f"preempted by {plugin}"
        return self._work.cancel()

    async def run(self, work: Coroutine[Any, Any, Status | None]) -> Status | None:
        """Return the status of the PreBind work, or an error if the pod is preempted meanwhile."""
        async with asyncio.TaskGroup() as group:
            self._work = group.create_task(work)
        if self._work.cancelled():
            return Status(Code.ERROR, (self._why,))
        return self._work.result()


class WaitingPods:
    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}
        self._in_pre_bind: dict[str, PreBindPod] = {}

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def preemptable(self, uid: str) -> PreemptablePod | None:
        """Return the pod if it is in Permit or PreBind, so that it can be preempted in memory."""
        return self._pods.get(uid) or self._in_pre_bind.get(uid)

    def put(self, pod: WaitingPod) -> None:
        self._pods[pod.info.uid] = pod

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    async def run_pre_bind(self, uid: str, work: Coroutine[Any, Any, Status | None]) -> Status | None:
        pod = self._in_pre_bind[uid] = PreBindPod()
        try:
            return await pod.run(work)
        finally:
            del self._in_pre_bind[uid]
