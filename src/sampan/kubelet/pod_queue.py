"""The queue of pods to sync, through which all parts of the kubelet ask for a sync or for the termination of a pod."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sampan.kubelet.pod_status import PodFailure
from sampan.kubelet.records import PodRecord, Records
from sampan.machinery.activity import Activity
from sampan.machinery.clock import Clock
from sampan.machinery.workqueue import Backoff, WorkQueue


class PodQueue:
    """Nothing here runs a pod: the sync loop takes the UIDs from the queue."""

    def __init__(self, *, records: Records, clock: Clock, activity: Activity) -> None:
        self._records, self._activity = records, activity
        self._queue: WorkQueue[str] = WorkQueue(clock=clock, backoff=Backoff(1, 10), activity=activity)

    def add(self, uid: str) -> None:
        self._queue.add(uid)

    def request_sync(self, uid: str) -> None:
        """Sync the pod, if it is known, because the runtime, a probe or a volume reports a change."""
        self._activity.step()
        if uid in self._records:
            self._queue.add(uid)

    def terminate(self, record: PodRecord, failure: PodFailure, by: float) -> None:
        """Terminate the pod on the node's own initiative (for example eviction), by the monotonic time `by`."""
        spec = record.spec
        spec.failure = spec.failure or failure
        spec.stop_by = min(by, spec.stop_by) if spec.stop_by else by
        record.progress.interrupt()
        self._queue.add(record.uid)

    def retry(self, uid: str) -> float:
        """Sync the pod again after a failure. Return the delay in seconds."""
        return self._queue.retry(uid)

    def done(self, uid: str, again_s: float | None) -> None:
        """Note a successful sync. `again_s` is the delay of the next one, or None to wait for a change."""
        self._queue.forget(uid)
        if again_s is not None:
            self._queue.add_after(uid, again_s, follows_wall_clock=True)

    async def serve(self, work: Callable[[str], Awaitable[None]], workers: int) -> None:
        await self._queue.serve(work, workers)
