"""The status manager writes pod statuses (`pkg/kubelet/status`).

Changes during a write are combined into the next one. A status never goes backwards (`pod_status.merge_statuses`). A
pod that is being deleted is removed from the API server after its final status has been written.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from sampan.api.codec import json
from sampan.api.semantics.pods import describe_status
from sampan.api.types.core_v1 import Pod, PodCondition, PodStatus
from sampan.host.activity import Activity
from sampan.host.backoff import Backoff
from sampan.host.clock import Clock
from sampan.kubelet.pod_conditions import TEMPORARY_CONDITIONS
from sampan.kubelet.pod_events import PodTrace
from sampan.kubelet.pod_status import merge_statuses
from sampan.kubelet.records import PodRecord, PodSyncState, Records
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed, DeleteParameters
from sampan.machinery.control_loop.workqueue import WorkQueue

log = logging.getLogger(__name__)

_TOO_LARGE = "request is too large"
"""Part of the message with which an API server refuses an object that its store cannot hold."""


class StatusManager:
    def __init__(
        self,
        *,
        records: Records,
        clock: Clock,
        activity: Activity,
        workers: int,
        trace: PodTrace,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_change` is called when a status changes, and when nothing is left of a pod on the node."""
        self._records, self._workers, self._trace, self._on_change = records, workers, trace, on_change
        self._queue: WorkQueue[str] = WorkQueue(clock=clock, backoff=Backoff(0.1, 10), activity=activity)

    def set_pod_status(self, record: PodRecord, status: PodStatus, *, may_run: bool = False) -> None:
        """Set the status to publish. `may_run` tells whether a container of the pod may still run."""
        old = record.status
        status = merge_statuses(old, status, may_run=may_run)
        if record.published.is_too_large:
            status = without_containers(status)
        if status != old:
            record.published.pending = status
            self._queue.add(record.uid)
            self._on_change()

    def request_write(self, uid: str) -> None:
        """Request that the status is written again, for example to a new mirror pod."""
        self._queue.add(uid)

    def finish(self, record: PodRecord) -> None:
        """Allow the API object to be removed: nothing of the pod is left on the node."""
        record.move_to(PodSyncState.FINISHED)
        self._on_change()
        if record.pod.metadata.deletionTimestamp is not None:
            self._queue.add(record.uid)

    def note_removal(self) -> None:
        """Note that the node has forgotten a pod, whose record is removed."""
        self._on_change()

    def acknowledge(self, record: PodRecord) -> bool:
        """Note that `record.pod` has been updated. Return whether the update only reflects the status that this manager
        wrote.
        """
        if not record.published.version:
            return False
        version = int(record.pod.metadata.resourceVersion)
        if version < record.published.version:
            return False
        is_echo = version == record.published.version
        if record.published.pending is record.published.written:
            record.published.pending = None
        record.published.written, record.published.version = None, 0
        return is_echo

    async def run(self) -> None:
        await self._queue.serve(self._sync, self._workers)

    async def _sync(self, uid: str) -> None:
        record = self._records.get(uid)
        if record is None:
            return
        try:
            await self._write(record)
            if record.state is PodSyncState.FINISHED and record.pod.metadata.deletionTimestamp is not None:
                await self._remove(record)
        except errors.NotFound:
            pass  # The pod source will report the removal.
        except (errors.ApiError, ConnectionFailed) as error:
            if _is_too_large(error):
                return self._shrink(record)
            pause_s = self._queue.retry(uid)
            log.warning(
                "cannot update the status of pod %s: %s; retrying in %g s", record.pod.metadata.name, error, pause_s
            )
        else:
            self._queue.forget(uid)

    def _shrink(self, record: PodRecord) -> None:
        """Leave the containers out of a status that is too large, from now on, or give up one that has none."""
        name, published = record.pod.metadata.name, record.published
        if published.is_too_large or published.pending is None:
            log.error("the status of pod %s is too large to be stored", name)
            published.pending = published.written
        else:
            log.error("the status of pod %s is too large: it is written without the containers", name)
            published.is_too_large, published.pending = True, without_containers(published.pending)
        self._queue.forget(record.uid)
        self._queue.add(record.uid)

    async def _write(self, record: PodRecord) -> None:
        """Patch the status on the API server if it has changed. Until the watch delivers the patched pod, `written` and
        `version` keep the result, so that the status does not seem to go back. If the watch was faster, nothing has to
        be kept. For a static pod `written` stays, because `record.pod` is not the API object.
        """
        status, pod = record.published.pending, record.api_pod
        if status is None or status is record.published.written or pod is None:
            return
        meta = pod.metadata
        patch = status_patch(record.published.written or pod.status, status)
        if not patch:
            record.published.pending = status if record.spec.is_static else record.published.written
            return
        body = {"metadata": {"uid": meta.uid}, "status": patch}
        with self._trace.step(pod, "report status", describe_status(status)):
            patched = await record.node.client.for_kind(Pod).patch(
                meta.name, body, meta.namespace, subresource="status"
            )
        version = int(patched.metadata.resourceVersion)
        if record.spec.is_static:
            record.published.written = status
        elif version > int(record.pod.metadata.resourceVersion):
            record.published.written, record.published.version = status, version
        elif record.published.pending is status:
            record.published.pending = None

    async def _remove(self, record: PodRecord) -> None:
        meta = record.pod.metadata
        options = DeleteParameters(grace_period_s=0, uid=meta.uid)
        await record.node.client.for_kind(Pod).delete(meta.name, meta.namespace, options=options)


def without_containers(status: PodStatus) -> PodStatus:
    return msgspec.structs.replace(
        status, containerStatuses=[], initContainerStatuses=[], ephemeralContainerStatuses=[]
    )


def _is_too_large(error: Exception) -> bool:
    return isinstance(error, errors.ApiError) and (error.code == 413 or _TOO_LARGE in str(error))


_FIELDS = msgspec.structs.fields(PodStatus)
_IP_LIST_FIELDS = ("podIPs", "hostIPs")
_OTHERS = ("resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses")
"""Status fields that components other than the kubelet write."""


def status_patch(old: PodStatus, new: PodStatus) -> dict[str, Any]:
    """Return the strategic merge patch from the old to the new status, empty if nothing has changed."""
    patch: dict[str, Any] = {}
    for field in _FIELDS:
        name = field.name
        before, after = getattr(old, name), getattr(new, name)
        if before == after or name in _OTHERS:
            continue
        if name == "conditions":
            patch.update(_conditions(before, after))
        elif name in _IP_LIST_FIELDS:
            removed = {address.ip for address in before} - {address.ip for address in after}
            patch[name] = [json.to_value(address) for address in after]
            patch[name] += [{"$patch": "delete", "ip": ip} for ip in sorted(removed)]
        else:
            patch[name] = json.to_value(after) if after or after == 0 else None
    return patch


def _conditions(old: Sequence[PodCondition], new: Sequence[PodCondition]) -> dict[str, Any]:
    before = {condition.type: condition for condition in old}
    changed: list[dict[str, Any]] = [
        _build_condition_patch(before.get(condition.type), condition)
        for condition in new
        if before.get(condition.type) != condition
    ]
    removed = [
        name for name in TEMPORARY_CONDITIONS if name in before and all(condition.type != name for condition in new)
    ]
    changed += [{"$patch": "delete", "type": name} for name in removed]
    if not changed:
        return {}
    return {"$setElementOrder/conditions": [{"type": condition.type} for condition in new], "conditions": changed}


def _build_condition_patch(old: PodCondition | None, new: PodCondition) -> dict[str, Any]:
    """Return the new condition, with null for every field that only the old one has."""
    value: dict[str, Any] = json.to_value(new)
    removed = set(json.to_value(old)) - set(value) if old is not None else ()
    return value | dict.fromkeys(removed)
