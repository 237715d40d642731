"""Pods as endpoints of services: membership, addresses, ports and state."""

from collections.abc import Iterator
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final

from sampan.api.semantics.pods import is_ready
from sampan.api.types.core_v1 import ContainerPort, Pod, Service, ServicePort

IPV4, IPV6 = "IPv4", "IPv6"
HEADLESS: Final = "service.kubernetes.io/headless"
LAST_CHANGE: Final = "endpoints.kubernetes.io/last-change-trigger-time"


def may_serve(pod: Pod, *, with_terminating: bool) -> bool:
    """Whether the pod is listed at all: it has an address and has not terminated."""
    status = pod.status
    if status.phase in ("Succeeded", "Failed") or not (status.podIP or status.podIPs):
        return False
    return with_terminating or pod.metadata.deletionTimestamp is None


def addresses_of(pod: Pod, family: str) -> list[str]:
    return [_plain(pod_ip.ip) for pod_ip in pod.status.podIPs if (":" in pod_ip.ip) == (family == IPV6)]


@lru_cache(maxsize=1 << 14)
def _plain(text: str) -> str:
    """Return the canonical form of an IP address."""
    try:
        return str(ip_address(text))
    except ValueError:
        return text


def port_number(pod: Pod, port: ServicePort) -> int | None:
    """Return the target port number; a named port is resolved in the pod's containers."""
    target = port.targetPort
    if isinstance(target, int):
        return target
    for container_port in _ports(pod):
        if container_port.name == target and (container_port.protocol or "TCP") == (port.protocol or "TCP"):
            return container_port.containerPort
    return None


def _ports(pod: Pod) -> Iterator[ContainerPort]:
    """Yield the ports of containers and sidecars."""
    for container in pod.spec.containers or ():
        yield from container.ports
    for container in pod.spec.initContainers:
        if container.restartPolicy == "Always":
            yield from container.ports


def hostname_of(pod: Pod, service: Service) -> str:
    """Return the hostname of the endpoint if the pod sets one below this service, or an empty string."""
    is_asked = pod.spec.hostname and pod.spec.subdomain == service.metadata.name
    return pod.spec.hostname if is_asked else ""


def is_headless(service: Service) -> bool:
    return service.spec.clusterIP in ("", "None")


def signature(pod: Pod) -> tuple[Any, ...]:
    """Return everything of a pod, except its labels, that endpoints depend on."""
    status, spec, meta = pod.status, pod.spec, pod.metadata
    return (
        meta.uid,
        meta.deletionTimestamp is not None,
        status.phase in ("Succeeded", "Failed"),
        is_ready(pod),
        [pod_ip.ip for pod_ip in status.podIPs],
        spec.nodeName,
        spec.hostname,
        spec.subdomain,
    )
