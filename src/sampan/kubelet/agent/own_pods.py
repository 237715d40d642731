"""Runs static pods from their sources and maintains their mirror pods (`pkg/kubelet/pod/mirror_client.go`)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.agent.static_pods import is_mirror_of, mirror_of
from sampan.kubelet.records import NodeRecord, PodRecord, Records, Stage
from sampan.kubelet.status_manager import StatusManager
from sampan.kubelet.sync_loop import SyncLoop
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed, Delete
from sampan.machinery.clock import Clock
from sampan.machinery.workqueue import Backoff, WorkQueue

log = logging.getLogger(__name__)

_Name = tuple[str, str]


class OwnPods:
    """Manages the static pods of a node. `run()` creates and deletes their mirror pods."""

    def __init__(
        self, *, node: NodeRecord, records: Records, sync_loop: SyncLoop, statuses: StatusManager, clock: Clock
    ) -> None:
        self._node, self._records, self._sync_loop, self._statuses = node, records, sync_loop, statuses
        self._wanted: dict[str, dict[_Name, Pod]] = {}
        """Static pods by source and name."""
        self._mirrors: dict[_Name, Pod] = {}
        self._queue: WorkQueue[_Name] = WorkQueue(clock=clock, backoff=Backoff(1, 30))

    def uids(self) -> set[str]:
        return {pod.metadata.uid for pods in self._wanted.values() for pod in pods.values()}

    def update(self, source: str, pods: Sequence[Pod]) -> None:
        """Replace the pods of a source by `pods`."""
        before = self._wanted.get(source, {})
        now = self._wanted[source] = {_name(pod): pod for pod in pods}
        for name in {*before, *now}:
            self._sync(name)

    def on_mirror(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        name = _name(pod)
        if new is not None:
            self._mirrors[name] = new
        else:
            self._mirrors.pop(name, None)
        if (record := self._record(name)) is not None:
            is_other = record.mirror is None or new is None or record.mirror.metadata.uid != new.metadata.uid
            record.mirror = new
            if is_other:
                record.written = None
                self._statuses.queue.add(record.uid)
        self._queue.add(name)

    async def show(self, pod: Pod) -> str:
        """Ensure that the API server has the mirror pod, as a step of the pod's start. Return the outcome; if the
        mirror pod cannot be created now, that is retried later.
        """
        name = _name(pod)
        if name in self._mirrors:
            return "there"
        if not self._node.node.metadata.uid:
            return "later: the node is not registered"
        try:
            await self._sync_mirror(name)
        except (errors.ApiError, ConnectionFailed) as error:
            self._queue.add(name)
            return f"later: {error}"
        return "made"

    def on_terminated(self, record: PodRecord) -> None:
        """Forget a static pod that has terminated, and start its successor of the same name if there is one."""
        if record.is_static and record.is_ending:
            self._records.pop(record.uid, None)
            self._sync(_name(record.pod))

    async def run(self) -> None:
        await self._queue.serve(self._work, 1)

    async def _work(self, name: _Name) -> None:
        try:
            await self._sync_mirror(name)
            self._queue.forget(name)
        except (errors.ApiError, ConnectionFailed) as error:
            log.warning(
                "cannot update the mirror pod of static pod %s/%s: %s; retrying in %g s",
                *name,
                error,
                self._queue.retry(name),
            )

    # -- internals ---------------------------------------------------------------------------------------------------

    def _sync(self, name: _Name) -> None:
        """Start the static pod, or terminate one that is no longer wanted. Its successor of the same name starts after
        that.
        """
        pod, record = self._pod(name), self._record(name)
        if record is not None and (pod is None or record.uid != pod.metadata.uid):
            record.is_ending = True
            self._sync_loop.dispatch_work(record.uid)
        elif record is None and pod is not None:
            self._sync_loop.iteration(self._node, None, pod)
            if (new_record := self._records.get(pod.metadata.uid)) is not None:
                new_record.is_static, new_record.mirror = True, self._mirrors.get(name)
        self._queue.add(name)

    async def _sync_mirror(self, name: _Name) -> None:
        """Create a missing mirror pod, and delete one that is outdated or marked for deletion; once the watch delivers
        that deletion, it is created again. The mirror pod of a removed static pod stays until that has terminated.
        """
        pod, mirror = self._pod(name), self._mirrors.get(name)
        pods = self._node.client.of(Pod)
        if mirror is not None and (pod is None or not is_mirror_of(mirror, pod)):
            if self._record(name) is not None and pod is None:
                return  # The static pod is still terminating.
            await self._delete(mirror)
            return
        if mirror is not None and mirror.metadata.deletionTimestamp is not None:
            await self._delete(mirror)
        elif mirror is None and pod is not None:
            with contextlib.suppress(errors.AlreadyExists):  # The watch has not delivered it yet.
                await pods.create(mirror_of(pod, self._node.node))

    async def _delete(self, mirror: Pod) -> None:
        meta, options = mirror.metadata, Delete(grace_period_s=0, uid=mirror.metadata.uid)
        with contextlib.suppress(errors.NotFound):
            await self._node.client.of(Pod).delete(meta.name, meta.namespace, options=options)

    def _pod(self, name: _Name) -> Pod | None:
        return next((pods[name] for pods in self._wanted.values() if name in pods), None)

    def _record(self, name: _Name) -> PodRecord | None:
        records = (record for record in self._records.values() if record.is_static and _name(record.pod) == name)
        return next(
            (record for record in records if record.stage is not Stage.TERMINATED or not record.is_ending), None
        )


def _name(pod: Pod) -> _Name:
    return pod.metadata.namespace, pod.metadata.name
