"""The proxy subresource of nodes, pods and services, and the deprecated proxy paths."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sampan.api.selectors import labels
from sampan.api.semantics.endpoint_slices import SERVICE_NAME
from sampan.api.types.core_v1 import NodeProxyOptions, PodProxyOptions, ServiceProxyOptions
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.api.values.integers import parse_port
from sampan.apiserver.proxy.locations import (
    Location,
    ProxyTarget,
    is_kubelet_port,
    pod_location,
    service_locations,
    service_port_name,
    slices_of_endpoints,
    target_of,
    unreachable_error,
)
from sampan.apiserver.response.responses import ApiResponse, StreamedResponse
from sampan.host.http import HttpRequest, HttpResponse, StreamResponse
from sampan.machinery import errors
from sampan.machinery.multiplex import handshake
from sampan.storage.cacher import ObjectSelection

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.proxy.kubelets import Kubelets
    from sampan.apiserver.proxy.upstream import UpstreamClient
    from sampan.apiserver.registry.registry import Registry
    from sampan.apiserver.request.call import Call
HOLLOW_POD = "a hollow pod listens on no port"
_RANDOM = random.Random()
"""A private random number generator, because tests seed the shared one."""


async def proxy_to_node(endpoints: ApiEndpoints, call: Call) -> ApiResponse:
    target, upstream = target_of("node", call.name), _upstream(endpoints)
    await endpoints.admit_connection(call, NodeProxyOptions(path=call.tail))
    port = parse_port(target.port) if target.port else 0
    if port is None:
        raise errors.bad_request(f'invalid node request "{call.name}"')
    name = await _node_name(endpoints, target.name)
    if upstream.kubelets.find_local(name) is not None and is_kubelet_port(await upstream.kubelets.node(name), port):
        return StreamedResponse(lambda request: _local(request, upstream, name))
    location = await upstream.kubelets.location(name)
    await upstream.kubelets.check_reachable(location.host)
    if port not in (0, location.port):
        location = Location(host=location.host, port=port, is_tls=target.scheme == "https")
    return _make_proxy_response(upstream, location)


async def proxy_to_pod(endpoints: ApiEndpoints, call: Call) -> ApiResponse:
    target = target_of("pod", call.name)
    await endpoints.admit_connection(call, PodProxyOptions(path=call.tail))
    pod = await _object(endpoints, "Pod", call.namespace, target.name)
    location, upstream = pod_location(pod, target), _upstream(endpoints)
    if await upstream.kubelets.is_hollow(pod):
        raise unreachable_error(HOLLOW_POD)
    return _make_proxy_response(upstream, location)


async def proxy_to_service(endpoints: ApiEndpoints, call: Call) -> ApiResponse:
    target = target_of("service", call.name)
    await endpoints.admit_connection(call, ServiceProxyOptions(path=call.tail))
    port = target.port
    if port.isascii() and port.isdecimal():
        port = service_port_name(await _object(endpoints, "Service", call.namespace, target.name), target)
    registry, upstream = endpoints.registry, _upstream(endpoints)
    slices = await list_slices(registry, call.namespace, target.name)
    if not slices:
        slices = slices_of_endpoints(await _object(endpoints, "Endpoints", call.namespace, target.name))
    location = await choose_location(registry, upstream.kubelets, service_locations(slices, port, target))
    return _make_proxy_response(upstream, location)


async def locate_service(registry: Registry, kubelets: Kubelets, *, namespace: str, name: str, port: int) -> Location:
    """Return an endpoint of a port of a service, for requests of this server over TLS. Raise NotFound for a missing
    service or ServiceUnavailable for one without such a port or endpoint."""
    target = ProxyTarget(scheme="https", name=name, port=str(port), text=f"https:{name}:{port}")
    service = await _read_object(registry, "Service", namespace, name)
    if service.spec.type == "ExternalName":
        return Location(host=service.spec.externalName, port=port, is_tls=True)
    port_name = service_port_name(service, target)
    slices = await list_slices(registry, namespace, name)
    locations = service_locations(slices, port_name, target, service.spec.ipFamilies)
    return await choose_location(registry, kubelets, locations)


async def list_slices(registry: Registry, namespace: str, service: str) -> list[EndpointSlice]:
    """Return the EndpointSlices of a service."""
    store = registry.open_store_of("discovery.k8s.io", "v1", "EndpointSlice")
    await store.cacher.wait_ready()
    selection = ObjectSelection(namespace=namespace, labels=labels.from_labels({SERVICE_NAME: service}))
    return [item.object(store.codec.decode) for item in store.cacher.peek_selected(selection)]


async def choose_location(registry: Registry, kubelets: Kubelets, locations: Sequence[Location]) -> Location:
    """Choose one of a service's locations at random. Raise ServiceUnavailable if all are pods of hollow nodes."""
    store = registry.open_store_of("", "v1", "Pod")
    for location in _RANDOM.sample(locations, len(locations)):
        item = await store.cacher.get(*location.pod) if location.pod is not None else None
        if item is None or not await kubelets.is_hollow(item.object(store.codec.decode)):
            return location
    raise unreachable_error(HOLLOW_POD)


def _make_proxy_response(upstream: UpstreamClient, location: Location) -> StreamedResponse:
    async def serve(request: HttpRequest) -> StreamResponse | None:
        prefix, path = split_path(request.raw_path)
        if not path and not _is_upgrade(request) and request.method in ("GET", "HEAD"):
            return _redirect_to_slash(request)
        query = request.raw_query
        return await upstream.forward(request, location, f"{path or '/'}{'?' if query else ''}{query}", prefix)

    return StreamedResponse(serve)


async def _local(request: HttpRequest, upstream: UpstreamClient, node: str) -> StreamResponse | None:
    _, path = split_path(request.raw_path)
    if not path and not _is_upgrade(request) and request.method in ("GET", "HEAD"):
        return _redirect_to_slash(request)
    query = request.raw_query
    return await upstream.forward_to_kubelet(request, node, f"{path or '/'}{'?' if query else ''}{query}")


def split_path(raw: str) -> tuple[str, str]:
    """Return the path of the proxied object and the rest: /api/v1/nodes/NAME/proxy and /api/v1/proxy/nodes/NAME have
    five elements, namespaced paths seven."""
    parts = raw.split("/")
    count = 1 + (7 if "namespaces" in parts[3:5] else 5)
    prefix, remainder = "/".join(parts[:count]), parts[count:]
    return prefix, "/" + "/".join(remainder) if remainder else ""


def _is_upgrade(request: HttpRequest) -> bool:
    return handshake.is_upgrade(request.values)


def _redirect_to_slash(request: HttpRequest) -> StreamResponse | None:
    query = request.raw_query
    return HttpResponse(status=301, headers={"Location": f"{request.raw_path}/{'?' if query else ''}{query}"})


async def _node_name(endpoints: ApiEndpoints, text: str) -> str:
    """Return the name of a node, which deprecated paths may name by its address."""
    nodes = endpoints.registry.open_store_of("", "v1", "Node")
    if await nodes.cacher.get("", text) is None:
        await nodes.cacher.wait_ready()
        for item in nodes.cacher.peek_all():
            node = item.object(nodes.codec.decode)
            if any(address.address == text for address in node.status.addresses):
                return str(node.metadata.name)
        raise errors.not_found("nodes", text)
    return text


async def _object(endpoints: ApiEndpoints, kind: str, namespace: str, name: str) -> Any:
    return await _read_object(endpoints.registry, kind, namespace, name)


async def _read_object(registry: Registry, kind: str, namespace: str, name: str) -> Any:
    store = registry.open_store_of("", "v1", kind)
    return (await store.get(namespace, name)).object(store.codec.decode)


def _upstream(endpoints: ApiEndpoints) -> UpstreamClient:
    if endpoints.upstream is None:
        raise errors.service_unavailable("this server cannot proxy connections")
    return endpoints.upstream
