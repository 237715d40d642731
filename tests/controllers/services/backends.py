"""Builders of services and of pods with addresses."""

from collections.abc import Mapping, Sequence
from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Pod, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.machinery.client import Selection
from tests.apiserver.pods import CONTAINER, pod_value
from tests.controllers.cluster import Cluster
from tests.controllers.nodes.fleet import Fleet, condition


def service(name: str = "web", *, labels: Mapping[str, str] | None = None, **spec: Any) -> Service:
    """A service with defaults that selects pods with the label `app: web`; an argument that is None is left out."""
    fields = {
        "selector": {"app": "web"},
        "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
        "clusterIP": "10.0.0.5",
        "ipFamilies": ["IPv4"],
        **spec,
    }
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": dict(labels or {})}
    meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return codec.from_value({"metadata": meta, "spec": {k: v for k, v in fields.items() if v is not None}}, Service)


def pod(
    name: str,
    *ips: str,
    ready: bool = True,
    is_deleted: bool = False,
    phase: str = "Running",
    ports: Sequence[Mapping[str, Any]] = (),
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Pod:
    containers = [{**CONTAINER, "ports": list(ports)}]
    value = pod_value({"nodeName": "n", "containers": containers, **spec}, name=name, uid=f"uid-{name}")
    value["metadata"]["labels"] = dict(labels or {"app": "web"})
    if is_deleted:
        value["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    value["status"] = {
        "phase": phase,
        "podIP": ips[0] if ips else "",
        "podIPs": [{"ip": ip} for ip in ips],
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    return codec.from_value(value, Pod)


class Backends(Fleet):
    """Pods and services that a test creates, and the EndpointSlices that the controllers create for them."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._count = 0

    async def start(
        self, name: str, *, node: str = "n", ready: bool = True, labels: Mapping[str, str] | None = None, **spec: Any
    ) -> Pod:
        self._count += 1
        high, low = divmod(self._count, 250)
        value = pod_value({"nodeName": node, "automountServiceAccountToken": False, **spec}, name=name)
        value["metadata"]["labels"] = dict(labels or {"app": "web"})
        pods = self._client.for_kind(Pod)
        await pods.create(codec.from_value(value, Pod))
        ip = f"10.244.{high}.{low + 1}"
        status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [self._ready(ready)]}
        return await pods.patch(name, {"status": status}, "default", subresource="status")

    async def set_ready(self, name: str, ready: bool) -> None:
        status = {"conditions": [self._ready(ready)]}
        await self._client.for_kind(Pod).patch(name, {"status": status}, "default", subresource="status")

    def _ready(self, ready: bool) -> dict[str, Any]:
        ready_condition = condition("Ready", "True" if ready else "False", self._cluster.clock.now())
        del ready_condition["lastHeartbeatTime"]
        return ready_condition

    async def serve(self, name: str = "web", **spec: Any) -> Service:
        value = {
            "metadata": {"name": name, "namespace": "default", "labels": {"team": "a"}},
            "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}], **spec},
        }
        return await self._client.for_kind(Service).create(codec.from_value(value, Service))

    async def slices(self, name: str = "web") -> list[EndpointSlice]:
        await self._cluster.clock.settle()
        chosen = Selection(namespace="default", labels=f"kubernetes.io/service-name={name}")
        return list((await self._client.for_kind(EndpointSlice).list(chosen)).items)

    async def list_conditions(self, name: str = "web") -> dict[str, tuple[bool | None, bool | None, bool | None]]:
        """Conditions (ready, serving, terminating) of the endpoints in all slices, by pod."""
        conditions_by_pod: dict[str, tuple[bool | None, bool | None, bool | None]] = {}
        for endpoint_slice in await self.slices(name):
            for endpoint in endpoint_slice.endpoints or ():
                conditions = endpoint.conditions
                assert endpoint.targetRef is not None
                assert endpoint.targetRef.name not in conditions_by_pod, "a pod is in only one slice"
                conditions_by_pod[endpoint.targetRef.name] = (
                    conditions.ready,
                    conditions.serving,
                    conditions.terminating,
                )
        return conditions_by_pod
