"""Heartbeats of a node: renews its lease, and writes its status when it has changed or is due."""

import logging

from sampan.api import times
from sampan.api.types.coordination_v1 import Lease, LeaseSpec
from sampan.api.types.core_v1 import Node, NodeStatus
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.kubelet.config import KubeletConfig
from sampan.kubelet.node_status import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    PID_PRESSURE,
    has_changed,
    is_ready,
    node_status,
    own_labels,
    status_patch,
)
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.records import NodeRecord
from sampan.machinery import errors
from sampan.machinery.clock import Clock
from sampan.machinery.copies import copy_of

log = logging.getLogger(__name__)

LEASES = "kube-node-lease"
_PRESSURE = {
    MEMORY_PRESSURE: ("NodeHasSufficientMemory", "NodeHasInsufficientMemory"),
    DISK_PRESSURE: ("NodeHasNoDiskPressure", "NodeHasDiskPressure"),
    PID_PRESSURE: ("NodeHasSufficientPID", "NodeHasInsufficientPID"),
}
"""Event reasons for the end and for the start of each pressure condition."""


class Heartbeat:
    def __init__(self, *, clock: Clock, config: KubeletConfig, events: PodEvents) -> None:
        self._clock, self._config, self._events = clock, config, events

    async def register(self, kubelet: NodeRecord) -> None:
        """Ensure the node's labels, status and lease."""
        labels, current_labels = own_labels(kubelet.name), kubelet.node.metadata.labels
        missing = {key: value for key, value in labels.items() if current_labels.get(key) != value}
        if missing:
            patch = {"metadata": {"labels": missing}}
            kubelet.node = await kubelet.client.of(Node).patch(kubelet.name, patch)
        self._events.node(kubelet, "Starting", "Starting kubelet.")
        await self._update_status(kubelet)
        await self.renew(kubelet)

    async def beat(self, kubelet: NodeRecord) -> None:
        await self.renew(kubelet)
        await self.report(kubelet)

    async def report(self, kubelet: NodeRecord) -> None:
        """Write the node status if it has changed or the report interval has passed."""
        last = kubelet.reported_at
        is_due = last is None or self._clock.monotonic() - last >= self._config.report_s
        if kubelet.is_changed or is_due:
            await self._update_status(kubelet, is_due=is_due)

    # -- status ------------------------------------------------------------------------------------------------------

    async def _update_status(self, kubelet: NodeRecord, *, is_due: bool = False) -> None:
        monotonic, node = self._clock.monotonic(), kubelet.node
        kubelet.is_changed = False
        status = node_status(node, kubelet.machine, self._clock.now())
        if not (is_due or has_changed(node.status, status)):
            kubelet.reported_at = monotonic if kubelet.reported_at is None else kubelet.reported_at
            return
        self._tell(kubelet, node.status, status)
        patch = {"status": status_patch(node.status, status)}
        kubelet.node = await kubelet.client.of(Node).patch(kubelet.name, patch, subresource="status")
        kubelet.reported_at = monotonic

    def _tell(self, kubelet: NodeRecord, old: NodeStatus, new: NodeStatus) -> None:
        if old.nodeInfo.bootID and old.nodeInfo.bootID != new.nodeInfo.bootID:
            text = f"Node {kubelet.name} has been rebooted, boot id: {new.nodeInfo.bootID}"
            self._events.node(kubelet, "Rebooted", text, "Warning")
        if old.conditions and is_ready(old) != is_ready(new):
            self._events.node_status(kubelet, "NodeReady" if is_ready(new) else "NodeNotReady")
        before = {condition.type: condition.status for condition in old.conditions}
        for condition in new.conditions:
            if (names := _PRESSURE.get(condition.type)) is not None and before.get(
                condition.type, condition.status
            ) != condition.status:
                self._events.node_status(kubelet, names[condition.status == "True"])

    # -- lease -------------------------------------------------------------------------------------------------------

    async def renew(self, kubelet: NodeRecord) -> None:
        """Renew the lease based on the last known version. After a conflict, or if it is gone, read or create
        it again.
        """
        leases = kubelet.client.of(Lease)
        if kubelet.lease is not None:
            try:
                kubelet.lease = await leases.update(self._renewed(kubelet, kubelet.lease))
                return
            except (errors.Conflict, errors.NotFound):
                kubelet.lease = None
        try:
            lease = await leases.get(kubelet.name, LEASES)
        except errors.NotFound:
            kubelet.lease = await leases.create(self._renewed(kubelet, None))
        else:
            kubelet.lease = await leases.update(self._renewed(kubelet, lease))

    def _renewed(self, kubelet: NodeRecord, base: Lease | None) -> Lease:
        node = kubelet.node
        owner = OwnerReference(apiVersion="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid)
        meta = ObjectMeta(name=kubelet.name, namespace=LEASES, ownerReferences=[owner])
        lease = copy_of(base) if base is not None else Lease(metadata=meta)
        lease.metadata.ownerReferences = [owner]
        lease.spec = LeaseSpec(
            holderIdentity=kubelet.name,
            leaseDurationSeconds=self._config.lease_duration_s,
            renewTime=times.format_micro_time(self._clock.now()),
            leaseTransitions=lease.spec.leaseTransitions,
            acquireTime=lease.spec.acquireTime,
        )
        return lease
