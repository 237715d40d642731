"""Warnings about services."""

from collections.abc import Iterator

from sampan.api.types.core_v1 import Service
from sampan.apiserver.registry.address_rules import cidr_warnings, ip_warnings
from sampan.apiserver.registry.kinds.services import traits
from sampan.apiserver.registry.kinds.services.traits import CLUSTER_IP, EXTERNAL_NAME, NONE
from sampan.apiserver.registry.kinds.services.validation import TOPOLOGY_HINTS


def service_warnings(service: Service) -> Iterator[str]:
    spec = service.spec
    is_headless = spec.type == CLUSTER_IP and spec.clusterIP == NONE
    if TOPOLOGY_HINTS in service.metadata.annotations:
        instead = "service.kubernetes.io/topology-mode"
        yield f"annotation {TOPOLOGY_HINTS} is deprecated, please use {instead} instead"
    if not is_headless:
        for index, address in enumerate(spec.clusterIPs):
            yield from ip_warnings(address, f"spec.clusterIPs[{index}]")
    else:
        yield from _ignored_when_headless(service)
    if spec.externalIPs:
        yield from _external_ips(service, is_headless)
    if spec.loadBalancerIP:
        yield from ip_warnings(spec.loadBalancerIP, "spec.loadBalancerIP")
    for index, network in enumerate(spec.loadBalancerSourceRanges):
        yield from cidr_warnings(network, f"spec.loadBalancerSourceRanges[{index}]")
    if traits.is_external_name(service) and spec.externalIPs:
        yield f'spec.externalIPs is ignored when spec.type is "{EXTERNAL_NAME}"'
    if not traits.is_external_name(service) and spec.externalName:
        yield f'spec.externalName is ignored when spec.type is not "{EXTERNAL_NAME}"'
    if spec.trafficDistribution == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _ignored_when_headless(service: Service) -> Iterator[str]:
    spec = service.spec
    if spec.loadBalancerIP:
        yield "spec.loadBalancerIP is ignored for headless services"
    if spec.externalIPs:
        yield "spec.externalIPs is ignored for headless services"
    if spec.sessionAffinity != NONE:
        yield "spec.SessionAffinity is ignored for headless services"


def _external_ips(service: Service, is_headless: bool) -> Iterator[str]:
    for index, address in enumerate(service.spec.externalIPs):
        yield from ip_warnings(address, f"spec.externalIPs[{index}]")
    if not is_headless and not traits.is_external_name(service):
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"


def status_warnings(service: Service) -> Iterator[str]:
    for index, ingress in enumerate(service.status.loadBalancer.ingress):
        if ingress.ip:
            yield from ip_warnings(ingress.ip, f"status.loadBalancer.ingress[{index}]")
