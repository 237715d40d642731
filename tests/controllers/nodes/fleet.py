"""Nodes and pods whose heartbeats, conditions and phases a test sets."""

from collections.abc import Mapping, Sequence
from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import Event, Node, Pod, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import times
from sampan.machinery.client import PatchType, Selection
from sampan.machinery.errors import AlreadyExists
from tests.apiserver.pods import pod_value
from tests.controllers.cluster import Cluster

LEASES = "kube-node-lease"
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


def node_value(name: str, *, zone: str = "", labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    zone_labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    return {"metadata": {"name": name, "labels": {**zone_labels, **(labels or {})}}, "spec": spec}


def condition(type: str, status: str, now: float, **more: str) -> dict[str, Any]:
    stamp = times.format_time(now)
    return {"type": type, "status": status, "lastHeartbeatTime": stamp, "lastTransitionTime": stamp, **more}


class Fleet:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._client = cluster, cluster.client

    async def add(self, name: str, *, zone: str = "", ready: str | None = "True", **spec: Any) -> Node:
        node = await self._client.for_kind(Node).create(codec.from_value(node_value(name, zone=zone, **spec), Node))
        if ready is not None:
            await self.post(name, ready)
        return node

    async def post(self, name: str, ready: str = "True", **conditions: str) -> None:
        """Post a status, as a kubelet does."""
        now = self._cluster.clock.now()
        statuses = [condition("Ready", ready, now), *(condition(key, value, now) for key, value in conditions.items())]
        statuses += [condition(key, "False", now) for key in PRESSURES if key not in conditions]
        await self._client.for_kind(Node).patch(name, {"status": {"conditions": statuses}}, subresource="status")

    async def renew(self, *names: str) -> None:
        """Renew the leases of these nodes."""
        leases, now = self._client.for_kind(Lease), times.format_micro_time(self._cluster.clock.now())
        for name in names:
            value = {"metadata": {"name": name, "namespace": LEASES}, "spec": {"renewTime": now}}
            try:
                await leases.create(codec.from_value(value, Lease))
            except AlreadyExists:
                await leases.patch(name, {"spec": {"renewTime": now}}, LEASES, type=PatchType.MERGE)

    async def pass_time(self, seconds: float, *alive: str, step_s: float = 10) -> None:
        """Let time pass while these nodes renew their leases."""
        left = seconds
        while left > 0:
            await self.renew(*alive)
            await self._cluster.clock.advance(min(step_s, left))
            left -= step_s

    async def account(self, namespace: str = "default") -> None:
        service_account = ServiceAccount(metadata=ObjectMeta(name="default", namespace=namespace))
        await self._client.for_kind(ServiceAccount).create(service_account)

    async def pod(
        self,
        name: str,
        node: str = "",
        *,
        tolerations: Sequence[Mapping[str, Any]] = (),
        phase: str = "Running",
        **meta: Any,
    ) -> Pod:
        """A pod that runs on a node and is ready."""
        spec: dict[str, Any] = {"automountServiceAccountToken": False, "tolerations": list(tolerations)}
        if node:
            spec["nodeName"] = node
        value = pod_value(spec, name=name, **meta)
        pods = self._client.for_kind(Pod)
        pod = await pods.create(codec.from_value(value, Pod))
        status: dict[str, Any] = {"phase": phase}
        if phase == "Running":
            status["conditions"] = [condition("Ready", "True", self._cluster.clock.now())]
            for entry in status["conditions"]:
                del entry["lastHeartbeatTime"]
        return await pods.patch(name, {"status": status}, pod.metadata.namespace, subresource="status")

    async def node(self, name: str) -> Node:
        return await self._client.for_kind(Node).get(name)

    async def taints(self, name: str) -> list[tuple[str, str]]:
        prefix = "node.kubernetes.io/"
        return sorted((taint.key.removeprefix(prefix), taint.effect) for taint in (await self.node(name)).spec.taints)

    async def pods(self) -> list[str]:
        return sorted(pod.metadata.name for pod in (await self._client.for_kind(Pod).list()).items)

    async def events(self, reason: str = "") -> list[tuple[str, str, str]]:
        """Object, reason and message of all events, or of the events with `reason`."""
        await self._cluster.clock.settle()
        fields = f"reason={reason}" if reason else ""
        events = (await self._client.for_kind(Event).list(Selection(fields=fields))).items
        return sorted((event.involvedObject.name, event.reason, event.message) for event in events)
