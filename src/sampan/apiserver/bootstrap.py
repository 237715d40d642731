"""The objects that every cluster has from the start: namespaces, priority classes and the `kubernetes` service.

They are written through the pipeline like a client's requests. Existing objects are left alone, except the endpoints of
the `kubernetes` service (`endpoint_reconciler`). `SystemObjects` is also the counterpart of the controllers
of `pkg/controlplane/controller` (kubernetesservice, systemnamespaces, defaultservicecidr, legacytokentracking): it
recreates these objects when users delete them. Priority classes and RBAC defaults are only reconciled at the start,
flow schemas by `sampan.apiserver.flowcontrol.flow_control_controller`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from sampan.api.values import times
from sampan.apiserver.endpoint_reconciler import EndpointReconciler
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.request.call import AUTHENTICATED, MASTERS, Call, Query, UserInfo
from sampan.apiserver.request.negotiation import JSON
from sampan.apiserver.request.patches import MERGE_PATCH
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed
from sampan.storage.backend import StorageError
from sampan.storage.cacher import CacheError

log = logging.getLogger(__name__)

INTERVAL_S = 10.0
"""How often the `kubernetes` service and its related objects are reconciled, as in kube-apiserver."""
NAMESPACES_INTERVAL_S = 60.0
"""How often the system namespaces are reconciled, as in kube-apiserver."""
SYSTEM = UserInfo("system:apiserver", groups=(MASTERS, AUTHENTICATED))
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITIES = (
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)
_TOKEN_TRACKING = "kube-apiserver-legacy-service-account-token-tracking"
"""The ConfigMap that records since when the use of legacy service account tokens is tracked."""
SystemObject = tuple[str, dict[str, Any]]
"""The path of a collection and the object to create in it."""


_SERVICES = "/api/v1/namespaces/default/services"
_NAME = "kubernetes"


class SystemObjects:
    """`ensure()` creates the objects when the server starts; `run()` recreates those that are deleted later."""

    def __init__(
        self, *, pipeline: Pipeline, cluster_ip_range: str, port: int, endpoints: EndpointReconciler | None
    ) -> None:
        """`port` is where clients reach this server. Without `endpoints`, none are published: a machine without a
        network has no address but the loopback."""
        self._pipeline, self._registry = pipeline, pipeline.endpoints.registry
        self._cluster_ip_range, self._port, self._endpoints = cluster_ip_range, port, endpoints
        self._last_error = ""
        """The last error; the same error is logged only once."""

    async def ensure(self) -> None:
        await self._ensure_namespaces()
        await _ensure(
            self._pipeline,
            [("/apis/scheduling.k8s.io/v1/priorityclasses", _priority_class(*row)) for row in _PRIORITIES],
        )
        await self._ensure_token_tracking()
        await _ensure_service_cidr(self._pipeline, self._cluster_ip_range, self._format_now())
        await _ensure_service(self._pipeline, _service(first_address(self._cluster_ip_range), self._port))
        if self._endpoints is not None:
            await self._endpoints.reconcile(with_ports=True)

    async def run(self, clock: Clock) -> None:
        """Reconcile periodically until cancelled."""
        namespaces_due = clock.monotonic() + NAMESPACES_INTERVAL_S
        while True:
            await clock.sleep(INTERVAL_S)
            is_due = clock.monotonic() >= namespaces_due
            if is_due:
                namespaces_due += NAMESPACES_INTERVAL_S
            try:
                await self.restore(with_namespaces=is_due)
                self._last_error = ""
            except (errors.ApiError, ConnectionFailed, StorageError, CacheError) as error:
                self._log_once(str(error))

    async def restore(self, *, with_namespaces: bool) -> None:
        """Create missing objects. Existence is checked in the watch caches, so that the usual case costs next to
        nothing."""
        if with_namespaces and any(not self._exists("", "v1", "Namespace", name) for name in NAMESPACES):
            await self._ensure_namespaces()
        if not self._exists("", "v1", "ConfigMap", _TOKEN_TRACKING, "kube-system"):
            await self._ensure_token_tracking()
        if not self._exists("networking.k8s.io", "v1", "ServiceCIDR", _NAME):
            await _ensure_service_cidr(self._pipeline, self._cluster_ip_range, self._format_now())
        if not self._exists("", "v1", "Service", _NAME, "default"):
            await _ensure_service(self._pipeline, _service(first_address(self._cluster_ip_range), self._port))
        if self._endpoints is not None:
            await self._endpoints.reconcile()

    async def _ensure_namespaces(self) -> None:
        await _ensure(self._pipeline, [("/api/v1/namespaces", {"metadata": {"name": name}}) for name in NAMESPACES])

    async def _ensure_token_tracking(self) -> None:
        tracking = {"metadata": {"name": _TOKEN_TRACKING}, "data": {"since": self._format_now()[:10]}}
        await _ensure(self._pipeline, [("/api/v1/namespaces/kube-system/configmaps", tracking)])

    def _exists(self, group: str, version: str, kind: str, name: str, namespace: str = "") -> bool:
        return self._registry.open_store_of(group, version, kind).cacher.peek(namespace, name) is not None

    def _format_now(self) -> str:
        return times.format_time(self._registry.clock.now())

    def _log_once(self, text: str) -> None:
        if text != self._last_error:
            log.warning(
                "cannot reconcile system namespaces or the service kubernetes: %s; retrying in %g s", text, INTERVAL_S
            )
        self._last_error = text


def first_address(cluster_ip_range: str) -> str:
    """Return the address of the `kubernetes` service, which is the first of the range."""
    return str(ipaddress.ip_network(cluster_ip_range.partition(",")[0])[1])


async def _ensure(pipeline: Pipeline, system_objects: Iterable[SystemObject]) -> None:
    """Create missing objects concurrently, so that the writes share a commit."""
    await asyncio.gather(*(_create(pipeline, path, body) for path, body in system_objects))


async def _ensure_service(pipeline: Pipeline, body: dict[str, Any]) -> None:
    """Create the service unless it exists. It is read first: an existing service holds its cluster IP, so that a second
    create would fail because of the address and not with AlreadyExists."""
    path = _SERVICES
    try:
        await _send(pipeline, "GET", f"{path}/{body['metadata']['name']}")
    except errors.NotFound:
        try:
            await _create(pipeline, path, body)
        except errors.Invalid:  # another server that shares the storage may have created it first
            await _send(pipeline, "GET", f"{path}/{body['metadata']['name']}")


async def _ensure_service_cidr(pipeline: Pipeline, cluster_ip_range: str, now: str) -> None:
    """Create the default ServiceCIDR and mark it ready at once."""
    path, name = "/apis/networking.k8s.io/v1/servicecidrs", "kubernetes"
    cidrs = [text.strip() for text in cluster_ip_range.split(",")]
    if not await _create(pipeline, path, {"metadata": {"name": name}, "spec": {"cidrs": cidrs}}):
        return
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now, "reason": ""}
    status = {"conditions": [{**ready, "message": "Kubernetes default Service CIDR is ready"}]}
    await _send(pipeline, "PATCH", f"{path}/{name}/status", {"status": status}, media=MERGE_PATCH)


async def _create(pipeline: Pipeline, path: str, body: dict[str, Any]) -> bool:
    try:
        await _send(pipeline, "POST", path, body)
    except errors.AlreadyExists:
        return False
    return True


async def _send(
    pipeline: Pipeline, method: str, path: str, body: dict[str, Any] | None = None, media: str = JSON
) -> None:
    content = msgspec.json.encode(body) if body is not None else b""
    headers = {"Content-Type": media, "User-Agent": "sampan-apiserver"}
    call = Call(method=method, path=path, query=Query(""), headers=headers, body=content, user=SYSTEM)
    await pipeline.serve_as(call)


def _priority_class(name: str, value: int, description: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "value": value, "description": description}


def _service(address: str, port: int) -> dict[str, Any]:
    return {
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "clusterIPs": [address],
            "ports": [{"name": "https", "port": 443, "targetPort": port, "protocol": "TCP"}],
            "sessionAffinity": "None",
            "ipFamilyPolicy": "SingleStack",
            "ipFamilies": ["IPv4" if ipaddress.ip_address(address).version == 4 else "IPv6"],
        },
    }
