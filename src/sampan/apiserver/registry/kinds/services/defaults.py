"""Default values of services."""

from sampan.api.types.core_v1 import ClientIPConfig, Service, ServiceSpec, SessionAffinityConfig
from sampan.apiserver.registry.kinds.services import traits
from sampan.apiserver.registry.kinds.services.traits import CLUSTER_IP, LOAD_BALANCER, NODE_PORT, NONE

_AFFINITY_S = 10800


def default_service(service: Service) -> None:
    spec = service.spec
    _default_affinity(spec)
    if not spec.type:
        spec.type = CLUSTER_IP
    for port in spec.ports:
        if not port.protocol:
            port.protocol = "TCP"
        if port.targetPort in (0, ""):
            port.targetPort = port.port
    if not spec.externalTrafficPolicy and traits.is_external(service):
        spec.externalTrafficPolicy = "Cluster"
    if spec.internalTrafficPolicy is None and spec.type in (CLUSTER_IP, NODE_PORT, LOAD_BALANCER):
        spec.internalTrafficPolicy = "Cluster"
    if spec.type == LOAD_BALANCER:
        _default_load_balancer(service)


def _default_affinity(spec: ServiceSpec) -> None:
    if not spec.sessionAffinity:
        spec.sessionAffinity = NONE
    if spec.sessionAffinity == NONE:
        spec.sessionAffinityConfig = None
    elif spec.sessionAffinity == "ClientIP":
        config = spec.sessionAffinityConfig
        if config is None or config.clientIP is None or config.clientIP.timeoutSeconds is None:
            spec.sessionAffinityConfig = SessionAffinityConfig(clientIP=ClientIPConfig(timeoutSeconds=_AFFINITY_S))


def _default_load_balancer(service: Service) -> None:
    if service.spec.allocateLoadBalancerNodePorts is None:
        service.spec.allocateLoadBalancerNodePorts = True
    for ingress in service.status.loadBalancer.ingress:
        if ingress.ip and ingress.ipMode is None:
            ingress.ipMode = "VIP"
