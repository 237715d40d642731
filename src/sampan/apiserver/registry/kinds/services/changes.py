"""Completes service updates: values that the client omits are kept, values that no longer apply are cleared."""

from sampan.api.types.core_v1 import LoadBalancerStatus, Service
from sampan.apiserver.registry.kinds.services import traits
from sampan.apiserver.registry.kinds.services.traits import LOAD_BALANCER


def keep_given(new: Service, old: Service) -> None:
    """Keep allocated cluster IPs and node ports if the client omits them, as when a manifest is applied again."""
    if not traits.is_external_name(old) and not traits.is_external_name(new):
        if not new.spec.clusterIP:
            new.spec.clusterIP = old.spec.clusterIP
        if not new.spec.clusterIPs:
            new.spec.clusterIPs = list(old.spec.clusterIPs)
    if traits.wants_node_ports(old) and traits.wants_node_ports(new):
        _keep_node_ports(new, old)
    if traits.needs_health_check(old) and traits.needs_health_check(new) and not new.spec.healthCheckNodePort:
        new.spec.healthCheckNodePort = old.spec.healthCheckNodePort


def _keep_node_ports(new: Service, old: Service) -> None:
    by_name = {port.name: port.nodePort for port in old.spec.ports}
    used = set(traits.node_ports(old)).intersection(traits.node_ports(new))
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
    if traits.is_external_name(new) and not traits.is_external_name(old):
        _drop_addresses(new, old)
    if traits.has_node_ports(old) and not traits.has_node_ports(new):
        _drop_node_ports(new, old)
    is_unchecked = traits.needs_health_check(old) and not traits.needs_health_check(new)
    if is_unchecked and spec.healthCheckNodePort == before.healthCheckNodePort:
        spec.healthCheckNodePort = 0
    if traits.is_load_balancer(old) and not traits.is_load_balancer(new):
        if spec.allocateLoadBalancerNodePorts == before.allocateLoadBalancerNodePorts:
            spec.allocateLoadBalancerNodePorts = None
        if spec.loadBalancerClass == before.loadBalancerClass:
            spec.loadBalancerClass = None
    is_withdrawn = traits.is_external(old) and not traits.is_external(new)
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
    if set(traits.node_ports(new)) <= set(traits.node_ports(old)):
        for port in new.spec.ports:
            port.nodePort = 0
