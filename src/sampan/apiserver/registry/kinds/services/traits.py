"""Predicates about services."""

from sampan.api.types.core_v1 import Service

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
