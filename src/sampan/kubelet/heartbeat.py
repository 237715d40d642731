"""Heartbeats of a node: renews its lease, and writes its status when it has changed or is due."""

from sampan.api.types.coordination_v1 import Lease, LeaseSpec
from sampan.api.types.core_v1 import Node, NodeStatus
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.api.values import times
from sampan.host.clock import Clock
from sampan.kubelet.config import KubeletConfig
from sampan.kubelet.node_status import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    PID_PRESSURE,
    build_node_labels,
    has_changed,
    is_ready,
    node_status,
    status_patch,
)
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.records import NodeRecord
from sampan.machinery import errors
from sampan.machinery.copies import copy_of

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

    async def register(self, record: NodeRecord) -> None:
        """Ensure that the API server has the node's labels, its current status and its lease."""
        labels, current_labels = build_node_labels(record.name), record.api_node.metadata.labels
        missing = {key: value for key, value in labels.items() if current_labels.get(key) != value}
        if missing:
            patch = {"metadata": {"labels": missing}}
            record.api_node = await record.client.for_kind(Node).patch(record.name, patch)
        self._events.record_node_event(record, "Starting", "Starting kubelet.")
        await self._update_status(record)
        await self.renew(record)

    async def beat(self, record: NodeRecord) -> None:
        await self.renew(record)
        await self.report(record)

    async def report(self, record: NodeRecord) -> None:
        """Write the node status if it has changed or the report interval has passed."""
        last = record.reported_at
        is_due = last is None or self._clock.monotonic() - last >= self._config.report_s
        if record.is_changed or is_due:
            await self._update_status(record, is_due=is_due)

    # -- status ------------------------------------------------------------------------------------------------------

    async def _update_status(self, record: NodeRecord, *, is_due: bool = False) -> None:
        monotonic, node = self._clock.monotonic(), record.api_node
        record.is_changed = False
        status = node_status(node, record.machine, self._clock.now())
        if not (is_due or has_changed(node.status, status)):
            record.reported_at = monotonic if record.reported_at is None else record.reported_at
            return
        self._record_transitions(record, node.status, status)
        patch = {"status": status_patch(node.status, status)}
        record.api_node = await record.client.for_kind(Node).patch(record.name, patch, subresource="status")
        record.reported_at = monotonic

    def _record_transitions(self, record: NodeRecord, old: NodeStatus, new: NodeStatus) -> None:
        if old.nodeInfo.bootID and old.nodeInfo.bootID != new.nodeInfo.bootID:
            text = f"Node {record.name} has been rebooted, boot id: {new.nodeInfo.bootID}"
            self._events.record_node_event(record, "Rebooted", text, "Warning")
        if old.conditions and is_ready(old) != is_ready(new):
            self._events.record_node_status(record, "NodeReady" if is_ready(new) else "NodeNotReady")
        before = {condition.type: condition.status for condition in old.conditions}
        for condition in new.conditions:
            if (names := _PRESSURE.get(condition.type)) is not None and before.get(
                condition.type, condition.status
            ) != condition.status:
                self._events.record_node_status(record, names[condition.status == "True"])

    # -- lease -------------------------------------------------------------------------------------------------------

    async def renew(self, record: NodeRecord) -> None:
        """Renew the lease based on its last known version. After a conflict read it again; if it is gone, create it
        again.
        """
        leases = record.client.for_kind(Lease)
        if record.lease is not None:
            try:
                record.lease = await leases.update(self._build_lease(record, record.lease))
                return
            except (errors.Conflict, errors.NotFound):
                record.lease = None
        try:
            lease = await leases.get(record.name, LEASES)
        except errors.NotFound:
            record.lease = await leases.create(self._build_lease(record, None))
        else:
            record.lease = await leases.update(self._build_lease(record, lease))

    def _build_lease(self, record: NodeRecord, base: Lease | None) -> Lease:
        node = record.api_node
        owner = OwnerReference(apiVersion="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid)
        meta = ObjectMeta(name=record.name, namespace=LEASES, ownerReferences=[owner])
        lease = copy_of(base) if base is not None else Lease(metadata=meta)
        lease.metadata.ownerReferences = [owner]
        lease.spec = LeaseSpec(
            holderIdentity=record.name,
            leaseDurationSeconds=self._config.lease_duration_s,
            renewTime=times.format_micro_time(self._clock.now()),
            leaseTransitions=lease.spec.leaseTransitions,
            acquireTime=lease.spec.acquireTime,
        )
        return lease
