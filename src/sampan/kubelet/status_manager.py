"""The status manager writes pod statuses (`pkg/kubelet/status`). Changes during a write are combined into the next one.

A status never goes backwards (`pod_status.merge`). A pod that is being deleted is removed from the API server after its
final status has been written.
"""

import logging

from sampan.api.types.core_v1 import Pod, PodStatus
from sampan.kubelet.pod_status import merge
from sampan.kubelet.records import PodRecord, Records
from sampan.kubelet.status_patch import status_patch
from sampan.machinery import errors
from sampan.machinery.activity import Activity
from sampan.machinery.client import ConnectionFailed, Delete
from sampan.machinery.clock import Clock
from sampan.machinery.workqueue import Backoff, WorkQueue

log = logging.getLogger(__name__)


class StatusManager:
    def __init__(self, *, records: Records, clock: Clock, activity: Activity, workers: int) -> None:
        self._records, self._workers = records, workers
        self.queue: WorkQueue[str] = WorkQueue(clock=clock, backoff=Backoff(0.1, 10), activity=activity)

    def set_pod_status(self, record: PodRecord, status: PodStatus, *, may_run: bool = False) -> None:
        """Set the status to publish. `may_run` tells whether a container of the pod may still run."""
        old = record.status
        status = merge(old, status, may_run=may_run)
        if status != old:
            record.said = status
            self.queue.add(record.uid)

    def finish(self, record: PodRecord) -> None:
        """Allow the API object to be removed: nothing of the pod is left on the node."""
        record.is_finished = True
        if record.pod.metadata.deletionTimestamp is not None:
            self.queue.add(record.uid)

    def seen(self, record: PodRecord) -> bool:
        """Note that `record.pod` has been updated. Return whether the update only reflects what this manager wrote."""
        if not record.version:
            return False
        version = int(record.pod.metadata.resourceVersion)
        if version < record.version:
            return False
        is_echo = version == record.version
        if record.said is record.written:
            record.said = None
        record.written, record.version = None, 0
        return is_echo

    async def run(self) -> None:
        await self.queue.serve(self._sync, self._workers)

    async def _sync(self, uid: str) -> None:
        record = self._records.get(uid)
        if record is None:
            return
        try:
            await self._write(record)
            if record.is_finished and record.pod.metadata.deletionTimestamp is not None:
                await self._remove(record)
        except errors.NotFound:
            pass  # The pod source will report the removal.
        except (errors.ApiError, ConnectionFailed) as error:
            pause_s = self.queue.retry(uid)
            log.warning(
                "cannot update the status of pod %s: %s; retrying in %g s", record.pod.metadata.name, error, pause_s
            )
        else:
            self.queue.forget(uid)

    async def _write(self, record: PodRecord) -> None:
        """Patch the status if it has changed. Until the watch delivers the patched pod, `written` and `version` keep
        the result, so that the status does not seem to go back; if the watch was faster, nothing has to be kept. For a
        static pod `written` stays, because `record.pod` is not the API object.
        """
        status, pod = record.said, record.shown
        if status is None or status is record.written or pod is None:
            return
        meta = pod.metadata
        patch = status_patch(record.written or pod.status, status)
        if not patch:
            record.said = status if record.is_static else record.written
            return
        body = {"metadata": {"uid": meta.uid}, "status": patch}
        shown = await record.kubelet.client.of(Pod).patch(meta.name, body, meta.namespace, subresource="status")
        version = int(shown.metadata.resourceVersion)
        if record.is_static:
            record.written = status
        elif version > int(record.pod.metadata.resourceVersion):
            record.written, record.version = status, version
        elif record.said is status:
            record.said = None

    async def _remove(self, record: PodRecord) -> None:
        meta = record.pod.metadata
        options = Delete(grace_period_s=0, uid=meta.uid)
        await record.kubelet.client.of(Pod).delete(meta.name, meta.namespace, options=options)
