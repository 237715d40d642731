"""The properties that follow from the type of a service, its default values, and the fields that a change of type
clears."""

from sampan.api.types.core_v1 import ClientIPConfig, LoadBalancerStatus, Service, ServiceSpec, SessionAffinityConfig

CLUSTER_IP, NODE_PORT, LOAD_BALANCER, EXTERNAL_NAME = "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"
SINGLE_STACK, PREFER_DUAL_STACK, REQUIRE_DUAL_STACK = "SingleStack", "PreferDualStack", "RequireDualStack"
NONE = "None"
"""The clusterIP of a headless service, and the default session affinity."""


def is_headless(service: Service) -> bool:
    return service.spec.clusterIPs == [NONE]


def is_external_name(service: Service) -> bool:
    return service.spec.type == EXTERNAL_NAME


def is_load_balancer(service: Service) -> bool:
    return service.spec.type == LOAD_BALANCER


def has_node_ports(service: Service) -> bool:
    return service.spec.type in (NODE_PORT, LOAD_BALANCER)


def wants_node_ports(service: Service) -> bool:
    """Whether a node port is allocated for ports that specify none."""
    spec = service.spec
    return spec.type == NODE_PORT or (spec.type == LOAD_BALANCER and spec.allocateLoadBalancerNodePorts is not False)


def is_external(service: Service) -> bool:
    """Whether the service is reachable from outside the cluster."""
    spec = service.spec
    return spec.type in (NODE_PORT, LOAD_BALANCER) or (spec.type == CLUSTER_IP and bool(spec.externalIPs))


def needs_health_check(service: Service) -> bool:
    return service.spec.type == LOAD_BALANCER and service.spec.externalTrafficPolicy == "Local"


def node_ports(service: Service) -> list[int]:
    return [port.nodePort for port in service.spec.ports if port.nodePort]


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
    if not spec.externalTrafficPolicy and is_external(service):
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


def keep_allocated_values(new: Service, old: Service) -> None:
    """Keep allocated cluster IPs and node ports if the client omits them, as when a manifest is applied again."""
    if not is_external_name(old) and not is_external_name(new):
        if not new.spec.clusterIP:
            new.spec.clusterIP = old.spec.clusterIP
        if not new.spec.clusterIPs:
            new.spec.clusterIPs = list(old.spec.clusterIPs)
    if wants_node_ports(old) and wants_node_ports(new):
        _keep_node_ports(new, old)
    if needs_health_check(old) and needs_health_check(new) and not new.spec.healthCheckNodePort:
        new.spec.healthCheckNodePort = old.spec.healthCheckNodePort


def _keep_node_ports(new: Service, old: Service) -> None:
    by_name = {port.name: port.nodePort for port in old.spec.ports}
    used = set(node_ports(old)).intersection(node_ports(new))
    for port in new.spec.ports:
        before = by_name.get(port.name, 0)
        if not port.nodePort and before not in used:
            port.nodePort = before


def match_addresses(new: Service, old: Service | None) -> None:
    """Make clusterIPs agree with clusterIP if the client set only one of them."""
    spec = new.spec
    if old is None:
        if spec.clusterIP and not spec.clusterIPs:
            spec.clusterIPs = [spec.clusterIP]
        return
    before = old.spec
    if before.clusterIPs and not spec.clusterIPs and before.clusterIP == spec.clusterIP:
        spec.clusterIPs = list(before.clusterIPs)
    if before.clusterIP != spec.clusterIP and before.clusterIPs == spec.clusterIPs:
        spec.clusterIPs = [spec.clusterIP] if spec.clusterIP or not before.clusterIP else []


def drop_unneeded(new: Service, old: Service) -> None:
    """Clear fields that do not apply to the new type of the service, unless the client has changed them too."""
    spec, before = new.spec, old.spec
    if is_external_name(new) and not is_external_name(old):
        _drop_addresses(new, old)
    if has_node_ports(old) and not has_node_ports(new):
        _drop_node_ports(new, old)
    is_unchecked = needs_health_check(old) and not needs_health_check(new)
    if is_unchecked and spec.healthCheckNodePort == before.healthCheckNodePort:
        spec.healthCheckNodePort = 0
    if is_load_balancer(old) and not is_load_balancer(new):
        if spec.allocateLoadBalancerNodePorts == before.allocateLoadBalancerNodePorts:
            spec.allocateLoadBalancerNodePorts = None
        if spec.loadBalancerClass == before.loadBalancerClass:
            spec.loadBalancerClass = None
    is_withdrawn = is_external(old) and not is_external(new)
    if is_withdrawn and spec.externalTrafficPolicy == before.externalTrafficPolicy:
        spec.externalTrafficPolicy = ""
    if spec.type != LOAD_BALANCER:
        new.status.loadBalancer = LoadBalancerStatus()


def _drop_addresses(new: Service, old: Service) -> None:
    spec, before = new.spec, old.spec
    if (spec.clusterIP, spec.clusterIPs) == (before.clusterIP, before.clusterIPs):
        spec.clusterIP, spec.clusterIPs = "", []
    if spec.ipFamilies == before.ipFamilies:
        spec.ipFamilies = []
    if spec.ipFamilyPolicy == before.ipFamilyPolicy:
        spec.ipFamilyPolicy = None


def _drop_node_ports(new: Service, old: Service) -> None:
    if set(node_ports(new)) <= set(node_ports(old)):
        for port in new.spec.ports:
            port.nodePort = 0
