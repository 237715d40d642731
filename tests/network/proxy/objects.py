"""Services and EndpointSlices for tests of the proxy."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.api.types.core_v1 import (
    ClientIPConfig,
    LoadBalancerIngress,
    LoadBalancerStatus,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
    SessionAffinityConfig,
)
from sampan.api.types.discovery_v1 import (
    Endpoint,
    EndpointConditions,
    EndpointHints,
    EndpointPort,
    EndpointSlice,
    ForNode,
    ForZone,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.network.proxy.services import IPV4, IPV6, SERVICE_NAME

NODE, OTHER_NODE = "here", "there"


def service(name: str = "web", *ports: ServicePort, ip: str | Sequence[str] = "10.96.0.10", **spec: object) -> Service:
    """Return a service; `ingress` are addresses of its load balancer, `affinity_s` the timeout of its affinity."""
    ips = [ip] if isinstance(ip, str) else list(ip)
    labels = spec.pop("labels", {})
    ingress = [LoadBalancerIngress(ip=address) for address in spec.pop("ingress", ())]  # type: ignore[attr-defined]
    timeout_s = spec.pop("affinity_s", 0)
    if timeout_s:
        spec["sessionAffinity"] = "ClientIP"
        spec["sessionAffinityConfig"] = SessionAffinityConfig(clientIP=ClientIPConfig(timeoutSeconds=timeout_s))  # type: ignore[arg-type]
    return Service(
        metadata=ObjectMeta(name=name, namespace="default", labels=labels),  # type: ignore[arg-type]
        spec=ServiceSpec(
            type=spec.pop("type", "ClusterIP"),  # type: ignore[arg-type]
            clusterIP=ips[0] if ips else "",
            clusterIPs=ips,
            ports=list(ports) or [port()],
            **spec,  # type: ignore[arg-type]
        ),
        status=ServiceStatus(loadBalancer=LoadBalancerStatus(ingress=ingress)),
    )


def port(number: int = 80, *, name: str = "", protocol: str = "TCP", node_port: int = 0) -> ServicePort:
    return ServicePort(name=name, protocol=protocol, port=number, targetPort=8080, nodePort=node_port)


def endpoint(
    address: str,
    *,
    node: str | None = OTHER_NODE,
    ready: bool | None = True,
    serving: bool | None = None,
    terminating: bool | None = None,
    zones: Sequence[str] = (),
    nodes: Sequence[str] = (),
) -> Endpoint:
    hints = EndpointHints(forZones=[ForZone(name=z) for z in zones], forNodes=[ForNode(name=n) for n in nodes])
    return Endpoint(
        addresses=[address],
        nodeName=node,
        conditions=EndpointConditions(
            ready=ready, serving=ready if serving is None else serving, terminating=terminating
        ),
        hints=hints if zones or nodes else None,
    )


def endpoint_slice(
    service: str,
    *endpoints: Endpoint,
    name: str = "",
    number: int = 8080,
    port_name: str = "",
    protocol: str = "TCP",
    labels: dict[str, str] | None = None,
) -> EndpointSlice:
    first = endpoints[0].addresses[0] if endpoints and endpoints[0].addresses else ""
    return EndpointSlice(
        metadata=ObjectMeta(
            name=name or f"{service}-1", namespace="default", labels={SERVICE_NAME: service, **(labels or {})}
        ),
        addressType=IPV6 if ":" in first else IPV4,
        endpoints=list(endpoints),
        ports=[EndpointPort(name=port_name, protocol=protocol, port=number)],
    )
