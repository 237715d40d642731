"""Runs static pods from their sources and maintains their mirror pods (`pkg/kubelet/pod/mirror_client.go`)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

import msgspec

from sampan.api.semantics.pod_references import CONFIG_HASH, CONFIG_MIRROR
from sampan.api.types.core_v1 import Node, Pod
from sampan.api.types.meta_v1 import OwnerReference
from sampan.host.backoff import Backoff
from sampan.host.clock import Clock
from sampan.kubelet.records import ENDED_STATES, NodeRecord, PodRecord, PodSyncState, Records
from sampan.kubelet.status_manager import StatusManager
from sampan.kubelet.sync_loop import SyncLoop
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed, DeleteParameters
from sampan.machinery.control_loop.workqueue import WorkQueue

log = logging.getLogger(__name__)

_Name = tuple[str, str]


class MirrorPods:
    """The mirror pods of a node's static pods. `run()` creates and deletes them."""

    def __init__(self, *, node: NodeRecord, records: Records, statuses: StatusManager, clock: Clock) -> None:
        self._node, self._records, self._statuses = node, records, statuses
        self._static_pods: dict[str, dict[_Name, Pod]] = {}
        """Static pods by source and name."""
        self._mirrors: dict[_Name, Pod] = {}
        self._queue: WorkQueue[_Name] = WorkQueue(clock=clock, backoff=Backoff(1, 30))

    # -- static pods -------------------------------------------------------------------------------------------------

    def replace(self, source: str, pods: Sequence[Pod]) -> set[_Name]:
        """Replace the static pods of a source by `pods`. Return the names of the old and the new ones."""
        old = self._static_pods.get(source, {})
        new = self._static_pods[source] = {pod_name(pod): pod for pod in pods}
        return {*old, *new}

    def static_pod(self, name: _Name) -> Pod | None:
        return next((pods[name] for pods in self._static_pods.values() if name in pods), None)

    def record(self, name: _Name) -> PodRecord | None:
        """Return the record of the static pod with that name, except one that has terminated because its manifest is
        gone or replaced.
        """
        records = (
            record for record in self._records.values() if record.spec.is_static and pod_name(record.pod) == name
        )
        return next(
            (record for record in records if record.state not in ENDED_STATES or not record.spec.is_withdrawn), None
        )

    # -- mirror pods -------------------------------------------------------------------------------------------------

    def mirror(self, name: _Name) -> Pod | None:
        return self._mirrors.get(name)

    def request_sync(self, name: _Name) -> None:
        self._queue.add(name)

    def on_mirror(self, old: Pod | None, new: Pod | None) -> None:
        """Note a change of a mirror pod on the API server."""
        pod = new or old
        assert pod is not None
        name = pod_name(pod)
        if new is not None:
            self._mirrors[name] = new
        else:
            self._mirrors.pop(name, None)
        if (record := self.record(name)) is not None:
            before, record.spec.mirror = record.spec.mirror, new
            if before is None or new is None or before.metadata.uid != new.metadata.uid:
                record.published.written = None
                self._statuses.request_write(record.uid)
        self._queue.add(name)

    async def ensure_mirror(self, pod: Pod) -> str:
        """Ensure that the API server has the mirror pod, as a step of the pod's start. Return the outcome. If the
        mirror pod cannot be created now, its creation is retried later.
        """
        name = pod_name(pod)
        if name in self._mirrors:
            return "exists"
        if not self._node.api_node.metadata.uid:
            return "retrying later: the node is not registered"
        try:
            await self._sync(name)
        except (errors.ApiError, ConnectionFailed) as error:
            self._queue.add(name)
            return f"retrying later: {error}"
        return "created"

    async def run(self) -> None:
        await self._queue.serve(self._work, 1)

    async def _work(self, name: _Name) -> None:
        try:
            await self._sync(name)
            self._queue.forget(name)
        except (errors.ApiError, ConnectionFailed) as error:
            log.warning(
                "cannot update the mirror pod of static pod %s/%s: %s; retrying in %g s",
                *name,
                error,
                self._queue.retry(name),
            )

    async def _sync(self, name: _Name) -> None:
        """Create a missing mirror pod, and delete one that is outdated or marked for deletion. A deleted mirror pod is
        created again once the watch delivers its deletion. The mirror pod of a removed static pod stays until the
        static pod has terminated.
        """
        pod, mirror = self.static_pod(name), self._mirrors.get(name)
        pods = self._node.client.for_kind(Pod)
        if mirror is not None and (pod is None or not is_mirror_of(mirror, pod)):
            if self.record(name) is not None and pod is None:
                return  # The static pod is still terminating.
            await self._delete(mirror)
            return
        if mirror is not None and mirror.metadata.deletionTimestamp is not None:
            await self._delete(mirror)
        elif mirror is None and pod is not None:
            with contextlib.suppress(errors.AlreadyExists):  # The watch has not delivered the mirror pod yet.
                await pods.create(mirror_of(pod, self._node.api_node))

    async def _delete(self, mirror: Pod) -> None:
        meta, options = mirror.metadata, DeleteParameters(grace_period_s=0, uid=mirror.metadata.uid)
        with contextlib.suppress(errors.NotFound):
            await self._node.client.for_kind(Pod).delete(meta.name, meta.namespace, options=options)


class StaticPodManager:
    """Starts and terminates the static pods of a node."""

    def __init__(self, *, node: NodeRecord, records: Records, sync_loop: SyncLoop, mirrors: MirrorPods) -> None:
        self._node, self._records, self._sync_loop, self._mirrors = node, records, sync_loop, mirrors
        sync_loop.on_terminated(self._on_terminated)

    def update(self, source: str, pods: Sequence[Pod]) -> None:
        """Replace the static pods of a source by `pods`."""
        for name in self._mirrors.replace(source, pods):
            self._sync(name)

    def _on_terminated(self, record: PodRecord) -> None:
        """Forget a static pod that has terminated, and start its successor of the same name if there is one."""
        if record.spec.is_static and record.spec.is_withdrawn:
            record.move_to(PodSyncState.REMOVED)
            self._records.pop(record.uid, None)
            self._sync(pod_name(record.pod))

    def _sync(self, name: _Name) -> None:
        """Start the static pod with that name, or terminate the running one if its manifest is gone or replaced. A
        successor of the same name starts after the old pod has terminated.
        """
        pod, record = self._mirrors.static_pod(name), self._mirrors.record(name)
        if record is not None and (pod is None or record.uid != pod.metadata.uid):
            self._sync_loop.withdraw(record)
        elif record is None and pod is not None:
            self._sync_loop.iteration(self._node, None, pod, is_static=True, mirror=self._mirrors.mirror(name))
        self._mirrors.request_sync(name)


def pod_name(pod: Pod) -> _Name:
    return pod.metadata.namespace, pod.metadata.name


def mirror_of(pod: Pod, node: Node) -> Pod:
    """Return the mirror pod of a static pod."""
    meta = msgspec.structs.replace(
        pod.metadata,
        uid="",
        annotations={**pod.metadata.annotations, CONFIG_MIRROR: pod.metadata.annotations[CONFIG_HASH]},
        ownerReferences=[
            OwnerReference(
                apiVersion="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid, controller=True
            )
        ],
    )
    return msgspec.structs.replace(pod, metadata=meta)


def is_mirror_of(mirror: Pod, pod: Pod) -> bool:
    return mirror.metadata.annotations.get(CONFIG_MIRROR) == pod.metadata.annotations[CONFIG_HASH]
