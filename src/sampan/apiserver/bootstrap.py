"""What a cluster has from its first moment: namespaces, priority classes, and the service that leads to the server.

Everything goes through the pipeline like a client's request; what is there already is left alone, except the endpoints
of the `kubernetes` service, which follow the server.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable
from typing import Any

import msgspec

from sampan.api import times
from sampan.apiserver.call import AUTHENTICATED, MASTERS, Call, Query, User
from sampan.apiserver.negotiation import JSON
from sampan.apiserver.patching import MERGE_PATCH
from sampan.apiserver.pipeline import Pipeline
from sampan.machinery import errors

SYSTEM = User("system:apiserver", groups=(MASTERS, AUTHENTICATED))
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
"""Tells since when the use of old tokens of service accounts is noted."""
Wanted = tuple[str, dict[str, Any]]
"""A collection's path and an object for it."""


async def bootstrap(pipeline: Pipeline, *, cluster_ip_range: str, address: str, port: int) -> None:
    now = times.format_time(pipeline.endpoints.registry.clock.now())
    await _ensure(pipeline, [("/api/v1/namespaces", {"metadata": {"name": name}}) for name in NAMESPACES])
    await _ensure(
        pipeline,
        [("/apis/scheduling.k8s.io/v1/priorityclasses", _priority_class(*row)) for row in _PRIORITIES],
    )
    tracking = {"metadata": {"name": _TOKEN_TRACKING}, "data": {"since": now[:10]}}
    await _ensure(pipeline, [("/api/v1/namespaces/kube-system/configmaps", tracking)])
    await _ensure_service_cidr(pipeline, cluster_ip_range, now)
    await _ensure_service(pipeline, _service(first_address(cluster_ip_range), port))
    if ipaddress.ip_address(address).is_loopback:
        return  # a machine without a network: there is no address that endpoints could lead to
    await _follow(pipeline, "/api/v1/namespaces/default/endpoints", _endpoints(address, port))
    await _follow(
        pipeline, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", _endpoint_slice(address, port)
    )


def first_address(cluster_ip_range: str) -> str:
    """The address of the `kubernetes` service: the first of the range."""
    return str(ipaddress.ip_network(cluster_ip_range.partition(",")[0])[1])


async def _ensure(pipeline: Pipeline, wanted: Iterable[Wanted]) -> None:
    """Create what is missing; together, so that the writes share a commit."""
    await asyncio.gather(*(_create(pipeline, path, body) for path, body in wanted))


async def _ensure_service(pipeline: Pipeline, body: dict[str, Any]) -> None:
    """A service that is there holds its address, so that creating it again would be refused for that."""
    path = "/api/v1/namespaces/default/services"
    try:
        await _send(pipeline, "GET", f"{path}/{body['metadata']['name']}")
    except errors.NotFound:
        try:
            await _create(pipeline, path, body)
        except errors.Invalid:  # another server of this store may have been faster
            await _send(pipeline, "GET", f"{path}/{body['metadata']['name']}")


async def _ensure_service_cidr(pipeline: Pipeline, cluster_ip_range: str, now: str) -> None:
    """The networks of services as an object, ready from the start."""
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


async def _follow(pipeline: Pipeline, path: str, body: dict[str, Any]) -> None:
    """Create the object, or bring it up to date."""
    if not await _create(pipeline, path, body):
        await _send(pipeline, "PUT", f"{path}/{body['metadata']['name']}", body)


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


def _endpoints(address: str, port: int) -> dict[str, Any]:
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    return {
        "metadata": {"name": "kubernetes", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": address}], "ports": ports}],
    }


def _endpoint_slice(address: str, port: int) -> dict[str, Any]:
    return {
        "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": "IPv4" if ipaddress.ip_address(address).version == 4 else "IPv6",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
