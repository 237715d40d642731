"""Validation of services, and the warnings about them."""

from collections.abc import Iterator

from sampan.api import addresses, names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.types.core_v1 import Service, ServicePort, ServiceSpec
from sampan.apiserver.registry.kinds.services import families, service_types
from sampan.apiserver.registry.kinds.services.service_types import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    LOAD_BALANCER,
    NODE_PORT,
    NONE,
)
from sampan.apiserver.registry.validation import (
    FieldErrors,
    cidr_warnings,
    ip_warnings,
    validate_dns_label,
    validate_dns_subdomain,
    validate_endpoint_ip,
    validate_labels,
    validate_qualified_name,
)

_TYPES = (CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT)
_AFFINITIES = ("ClientIP", NONE)
_MAX_AFFINITY_TIMEOUT_S = 86400
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_TOPOLOGY_MODE = "service.kubernetes.io/topology-mode"
TOPOLOGY_HINTS = "service.kubernetes.io/topology-aware-hints"
_SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_ONLY_LOAD_BALANCER = "may only be used when `type` is 'LoadBalancer'"


def validate_service(service: Service, old: Service | None) -> FieldErrors:
    annotations, spec = service.metadata.annotations, service.spec
    if annotations:
        yield from _validate_topology_annotations(annotations)
    if not spec.ports and not service_types.is_headless(service) and spec.type != EXTERNAL_NAME:
        yield FieldError.required("spec.ports")
    yield from _validate_type(service)
    yield from _validate_ports(spec)
    if spec.selector:
        yield from validate_labels(spec.selector, "spec.selector")
    yield from _validate_session_affinity(spec)
    yield from families.validate_cluster_ips(service, old)
    yield from _validate_external_ip(spec.externalIPs, old.spec.externalIPs if old is not None else [])
    if spec.type not in _TYPES:
        yield FieldError.not_supported("spec.type", spec.type, _TYPES)
    yield from _validate_node_port(spec)
    yield from _validate_unique_ports(spec)
    yield from _validate_load_balancer(service, old)
    yield from _validate_traffic_policies(service)


def validate_service_update(new: Service, old: Service) -> FieldErrors:
    yield from families.validate_cluster_ip_update(new, old)
    chosen = new.spec.loadBalancerClass
    stays_balanced = service_types.is_load_balancer(old) and service_types.is_load_balancer(new)
    if stays_balanced and chosen != old.spec.loadBalancerClass:
        yield FieldError.invalid("spec.loadBalancerClass", chosen, "may not change once set")
    yield from _validate_load_balancer_class(new)
    stays_checked = service_types.needs_health_check(old) and service_types.needs_health_check(new)
    if stays_checked and new.spec.healthCheckNodePort != old.spec.healthCheckNodePort:
        yield FieldError.forbidden("spec.healthCheckNodePort", "field is immutable")


def _validate_topology_annotations(annotations: dict[str, str]) -> FieldErrors:
    mode, hints = annotations.get(_TOPOLOGY_MODE), annotations.get(TOPOLOGY_HINTS)
    if mode is not None and hints is not None and mode != hints:
        text = f"must match annotations[{TOPOLOGY_HINTS}] when both are specified"
        yield FieldError.invalid(f"metadata.annotations[{_TOPOLOGY_MODE}]", mode, text)


def _validate_type(service: Service) -> FieldErrors:
    spec = service.spec
    if spec.type in (LOAD_BALANCER, NODE_PORT):
        if service_types.is_headless(service):
            yield FieldError.invalid("spec.clusterIPs[0]", NONE, f"may not be set to 'None' for {spec.type} services")
        return
    if spec.type != EXTERNAL_NAME:
        return
    for field, value in (("clusterIPs", spec.clusterIPs), ("ipFamilies", spec.ipFamilies)):
        if value:
            yield FieldError.forbidden(f"spec.{field}", "may not be set for ExternalName services")
    if spec.ipFamilyPolicy is not None:
        yield FieldError.forbidden("spec.ipFamilyPolicy", "may not be set for ExternalName services")
    name = spec.externalName.removesuffix(".")
    if name:
        yield from validate_dns_subdomain(name, "spec.externalName")
    else:
        yield FieldError.required("spec.externalName")


def _validate_ports(spec: ServiceSpec) -> FieldErrors:
    port_names: set[str] = set()
    for index, port in enumerate(spec.ports):
        path = f"spec.ports[{index}]"
        if port.name:
            yield from validate_dns_label(port.name, f"{path}.name")
            if port.name in port_names:
                yield FieldError.duplicate(f"{path}.name", port.name)
            port_names.add(port.name)
        elif len(spec.ports) > 1:
            yield FieldError.required(f"{path}.name")
        yield from _validate_port(port, path)


def _validate_port(port: ServicePort, path: str) -> FieldErrors:
    for text in names.port_number(port.port):
        yield FieldError.invalid(f"{path}.port", port.port, text)
    if port.protocol not in _PROTOCOLS:
        yield FieldError.not_supported(f"{path}.protocol", port.protocol, _PROTOCOLS)
    target = port.targetPort
    for text in names.port_number(target) if isinstance(target, int) else names.port_name(target):
        yield FieldError.invalid(f"{path}.targetPort", target, text)
    if port.appProtocol is not None:
        yield from validate_qualified_name(port.appProtocol, f"{path}.appProtocol")


def _validate_session_affinity(spec: ServiceSpec) -> FieldErrors:
    if spec.sessionAffinity not in _AFFINITIES:
        yield FieldError.not_supported("spec.sessionAffinity", spec.sessionAffinity, _AFFINITIES)
    elif spec.sessionAffinity == "ClientIP" and spec.sessionAffinityConfig and spec.sessionAffinityConfig.clientIP:
        seconds = spec.sessionAffinityConfig.clientIP.timeoutSeconds or 0
        if not 0 < seconds <= _MAX_AFFINITY_TIMEOUT_S:
            text = f"must be greater than 0 and less than {_MAX_AFFINITY_TIMEOUT_S}"
            yield FieldError.invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, text)


def _validate_external_ip(external_ips: list[str], before: list[str]) -> FieldErrors:
    old_addresses = set(before)
    for index, text in enumerate(external_ips):
        path = f"spec.externalIPs[{index}]"
        errors = [] if text in old_addresses else addresses.legacy_ip(text, path)
        yield from errors or validate_endpoint_ip(text, path)


def _validate_node_port(spec: ServiceSpec) -> FieldErrors:
    node_ports: set[tuple[str, int]] = set()
    if spec.type == CLUSTER_IP:
        for index, port in enumerate(spec.ports):
            if port.nodePort:
                text = "may not be used when `type` is 'ClusterIP'"
                yield FieldError.forbidden(f"spec.ports[{index}].nodePort", text)
    for index, port in enumerate(spec.ports):
        if port.nodePort:
            if (port.protocol, port.nodePort) in node_ports:
                yield FieldError.duplicate(f"spec.ports[{index}].nodePort", port.nodePort)
            node_ports.add((port.protocol, port.nodePort))


def _validate_unique_ports(spec: ServiceSpec) -> FieldErrors:
    if len(spec.ports) < 2:
        return
    distinct_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.ports):
        if (port.protocol, port.port) in distinct_ports:
            only_key = ServicePort(protocol=port.protocol, port=port.port)
            yield FieldError.duplicate(f"spec.ports[{index}]", encode_error_value(only_key))
        distinct_ports.add((port.protocol, port.port))


def _validate_load_balancer(service: Service, old: Service | None) -> FieldErrors:
    spec = service.spec
    if spec.loadBalancerSourceRanges:
        yield from _validate_source_range(spec, old)
    elif _SOURCE_RANGES in service.metadata.annotations:
        yield from _validate_source_range_annotation(service, old)
    if spec.allocateLoadBalancerNodePorts is not None and spec.type != LOAD_BALANCER:
        yield FieldError.forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_LOAD_BALANCER)
    yield from _validate_load_balancer_class(service)


def _validate_source_range(spec: ServiceSpec, old: Service | None) -> FieldErrors:
    path = "spec.LoadBalancerSourceRanges"
    if spec.type != LOAD_BALANCER:
        yield FieldError.forbidden(path, _ONLY_LOAD_BALANCER)
    before = {text.strip() for text in old.spec.loadBalancerSourceRanges} if old is not None else set()
    for index, text in enumerate(spec.loadBalancerSourceRanges):
        if text.strip() not in before:
            yield from addresses.legacy_cidr(text.strip(), f"{path}[{index}]")


def _validate_source_range_annotation(service: Service, old: Service | None) -> FieldErrors:
    path, value = f"metadata.annotations[{_SOURCE_RANGES}]", service.metadata.annotations[_SOURCE_RANGES]
    if service.spec.type != LOAD_BALANCER:
        yield FieldError.forbidden(path, _ONLY_LOAD_BALANCER)
    is_new = old is None or old.metadata.annotations.get(_SOURCE_RANGES, "") != value
    if is_new and value.strip():
        for text in value.strip().split(","):
            yield from addresses.legacy_cidr(text.strip(), path)


def _validate_load_balancer_class(service: Service) -> FieldErrors:
    chosen = service.spec.loadBalancerClass
    if chosen is None:
        return
    if service_types.is_load_balancer(service):
        yield from validate_qualified_name(chosen, "spec.loadBalancerClass")
    else:
        yield FieldError.forbidden("spec.loadBalancerClass", _ONLY_LOAD_BALANCER)


def _validate_traffic_policies(service: Service) -> FieldErrors:
    spec = service.spec
    policy = spec.externalTrafficPolicy
    if not service_types.is_external(service):
        if policy:
            text = "may only be set for externally-accessible services"
            yield FieldError.invalid("spec.externalTrafficPolicy", policy, text)
    elif policy not in _POLICIES:
        yield FieldError.not_supported("spec.externalTrafficPolicy", policy, _POLICIES)
    yield from _validate_health_check(service)
    if spec.internalTrafficPolicy is not None and spec.internalTrafficPolicy not in _POLICIES:
        yield FieldError.not_supported("spec.internalTrafficPolicy", spec.internalTrafficPolicy, _POLICIES)
    if spec.trafficDistribution is not None and spec.trafficDistribution not in _DISTRIBUTIONS:
        yield FieldError.not_supported("spec.trafficDistribution", spec.trafficDistribution, _DISTRIBUTIONS)


def _validate_health_check(service: Service) -> Iterator[FieldError]:
    path, port = "spec.healthCheckNodePort", service.spec.healthCheckNodePort
    if not service_types.needs_health_check(service):
        if port:
            text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            yield FieldError.invalid(path, port, text)
    elif not port:
        yield FieldError.required(path)
    else:
        for text in names.port_number(port):
            yield FieldError.invalid(path, port, text)


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
        yield from _headless_warnings(service)
    if spec.externalIPs:
        yield from _external_ip_warnings(service, is_headless)
    if spec.loadBalancerIP:
        yield from ip_warnings(spec.loadBalancerIP, "spec.loadBalancerIP")
    for index, network in enumerate(spec.loadBalancerSourceRanges):
        yield from cidr_warnings(network, f"spec.loadBalancerSourceRanges[{index}]")
    if service_types.is_external_name(service) and spec.externalIPs:
        yield f'spec.externalIPs is ignored when spec.type is "{EXTERNAL_NAME}"'
    if not service_types.is_external_name(service) and spec.externalName:
        yield f'spec.externalName is ignored when spec.type is not "{EXTERNAL_NAME}"'
    if spec.trafficDistribution == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _headless_warnings(service: Service) -> Iterator[str]:
    spec = service.spec
    if spec.loadBalancerIP:
        yield "spec.loadBalancerIP is ignored for headless services"
    if spec.externalIPs:
        yield "spec.externalIPs is ignored for headless services"
    if spec.sessionAffinity != NONE:
        yield "spec.SessionAffinity is ignored for headless services"


def _external_ip_warnings(service: Service, is_headless: bool) -> Iterator[str]:
    for index, address in enumerate(service.spec.externalIPs):
        yield from ip_warnings(address, f"spec.externalIPs[{index}]")
    if not is_headless and not service_types.is_external_name(service):
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"


def status_warnings(service: Service) -> Iterator[str]:
    for index, ingress in enumerate(service.status.loadBalancer.ingress):
        if ingress.ip:
            yield from ip_warnings(ingress.ip, f"status.loadBalancer.ingress[{index}]")
