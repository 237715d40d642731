"""The Service kube-dns, which leads to the DNS servers of the nodes.

The service has no selector: each DNS server keeps the EndpointSlices of its node. `trafficDistribution: PreferSameNode`
makes kube-proxy use the server of the same node, and that of another node while there is none.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Sequence
from typing import Final

from sampan.api.types.core_v1 import Service, ServicePort, ServiceSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.copies import copy_of
from sampan.machinery.object_key import NamespacedName
from sampan.network.server_publication import PublishedServer

log = logging.getLogger(__name__)

NAMESPACE: Final = "kube-system"
SERVICE: Final = "kube-dns"
MANAGER: Final = "dns.sampan"
_TENTH = 10
_PORTS: Final = (("dns", "UDP", 53), ("dns-tcp", "TCP", 53), ("metrics", "TCP", 9153))


def dns_addresses(service_ranges: str) -> list[str]:
    """Return the cluster IPs of kube-dns: the tenth address of each service CIDR, if that is large enough."""
    networks = [ipaddress.ip_network(text.strip(), strict=False) for text in service_ranges.split(",") if text.strip()]
    return [str(network[_TENTH]) for network in networks if network.num_addresses > _TENTH + 1]


def dns_service(addresses: Sequence[str]) -> Service:
    return Service(
        metadata=ObjectMeta(
            name=SERVICE,
            namespace=NAMESPACE,
            labels={
                "k8s-app": "kube-dns",
                "kubernetes.io/cluster-service": "true",
                "kubernetes.io/name": "CoreDNS",
            },
            annotations={"prometheus.io/port": "9153", "prometheus.io/scrape": "true"},
        ),
        spec=ServiceSpec(
            type="ClusterIP",
            clusterIP=addresses[0],
            clusterIPs=list(addresses),
            ipFamilyPolicy="RequireDualStack" if len(addresses) > 1 else "SingleStack",
            ports=[ServicePort(name=name, protocol=protocol, port=port) for name, protocol, port in _PORTS],
            trafficDistribution="PreferSameNode",
        ),
    )


async def ensure_dns_service(client: Client, addresses: Sequence[str]) -> None:
    """Create the Service kube-dns before another service can take its address, or adjust an existing one.

    A Service with a selector belongs to a DNS server that somebody else runs in pods: it is left alone.
    """
    desired, services = dns_service(addresses), client.for_kind(Service)
    try:
        try:
            service = await services.get(SERVICE, NAMESPACE)
        except errors.NotFound:
            await services.create(desired)
            return
        if service.spec.selector:
            log.warning("service %s/%s has a selector: it leads to another DNS server", NAMESPACE, SERVICE)
            return
        if service.spec.clusterIPs != desired.spec.clusterIPs:
            await services.delete(SERVICE, NAMESPACE)
            await services.create(desired)
        elif not _is_as_desired(service, desired):
            service = copy_of(service)
            service.metadata.labels.update(desired.metadata.labels)
            service.spec.ports = desired.spec.ports
            service.spec.trafficDistribution = desired.spec.trafficDistribution
            await services.update(service)
    except errors.ApiError as error:
        log.error("cannot create service %s/%s with address %s: %s", NAMESPACE, SERVICE, addresses[0], error)


def _is_as_desired(service: Service, desired: Service) -> bool:
    ports = [(port.name, port.protocol, port.port) for port in service.spec.ports]
    return (
        ports == list(_PORTS)
        and service.spec.trafficDistribution == desired.spec.trafficDistribution
        and desired.metadata.labels.items() <= service.metadata.labels.items()
    )


def describe_dns_server(*, node: str, addresses: Sequence[str], dns_port: int, metrics_port: int) -> PublishedServer:
    """Return the DNS server of a node as its EndpointSlices describe it."""
    numbers = (dns_port, dns_port, metrics_port)
    return PublishedServer(
        service=NamespacedName(NAMESPACE, SERVICE),
        manager=MANAGER,
        node=node,
        addresses=addresses,
        ports=[(name, protocol, number) for (name, protocol, _), number in zip(_PORTS, numbers, strict=True)],
        labels={"k8s-app": "kube-dns"},
    )
