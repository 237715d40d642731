"""Targets of proxied requests: pods, services, nodes, and paths."""

import pytest

from sampan.api.types.core_v1 import (
    Container,
    ContainerPort,
    DaemonEndpoint,
    EndpointAddress,
    Endpoints,
    EndpointSubset,
    Node,
    NodeAddress,
    NodeDaemonEndpoints,
    NodeStatus,
    ObjectReference,
    Pod,
    PodIP,
    PodSpec,
    PodStatus,
    Service,
    ServicePort,
    ServiceSpec,
)
from sampan.api.types.core_v1 import EndpointPort as SubsetPort
from sampan.api.types.discovery_v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.proxy import locations
from sampan.apiserver.proxy.locations import Location, ProxyTarget, target_of
from sampan.apiserver.proxy.proxied import split_path
from sampan.apiserver.registry.validation import validate_endpoint_ip
from sampan.machinery import errors


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("a", ProxyTarget(name="a")),
        ("a:80", ProxyTarget(name="a", port="80")),
        ("a:", ProxyTarget(name="a")),
        ("https:a:443", ProxyTarget(scheme="https", name="a", port="443")),
        (":a:http", ProxyTarget(name="a", port="http")),
    ],
)
def test_proxy_name_is_parsed_into_scheme_name_and_port(text: str, target: ProxyTarget) -> None:
    assert target_of("pod", text) == target


@pytest.mark.parametrize("text", ["", ":80", "ftp:a:1", "a:b:c:d", "http::80"])
def test_malformed_proxy_name_is_a_bad_request(text: str) -> None:
    with pytest.raises(errors.BadRequest, match="invalid pod request"):
        target_of("pod", text)


def _pod(ip: str, *ports: int) -> Pod:
    container = Container(name="c", ports=[ContainerPort(containerPort=port) for port in ports])
    return Pod(spec=PodSpec(containers=[container]), status=PodStatus(podIPs=[PodIP(ip=ip)] if ip else []))


def test_pod_location_uses_the_first_container_port_and_rejects_local_addresses() -> None:
    name = ProxyTarget(name="a")
    assert locations.pod_location(_pod("10.0.0.1", 8080, 9090), name) == Location(host="10.0.0.1", port=8080)
    assert locations.pod_location(_pod("10.0.0.1"), name) == Location(host="10.0.0.1", port=80)
    target = ProxyTarget(scheme="https", name="a", port="8443")
    assert locations.pod_location(_pod("fd00::1"), target).authority == "[fd00::1]:8443"
    for ip in ("", "127.0.0.1", "169.254.169.254", "0.0.0.0", "::1"):
        with pytest.raises(errors.BadRequest, match="address not allowed"):
            locations.pod_location(_pod(ip, 80), name)


@pytest.mark.parametrize("ip", ["::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:169.254.169.254", "::ffff:0.0.0.0"])
def test_ipv4_mapped_loopback_and_link_local_addresses_are_rejected(ip: str) -> None:
    """Nodes report their addresses themselves, and no validation rejects such addresses."""
    with pytest.raises(errors.BadRequest, match="address not allowed"):
        locations.check_reachable([ip])
    assert list(validate_endpoint_ip(ip, "addresses"))


def test_service_locations_follow_ports_and_endpoints() -> None:
    service = Service(spec=ServiceSpec(ports=[ServicePort(name="web", port=80), ServicePort(name="tls", port=443)]))
    assert locations.service_port_name(service, ProxyTarget(name="s", port="80")) == "web"
    assert locations.service_port_name(service, ProxyTarget(name="s", port="tls")) == "tls"
    with pytest.raises(errors.ServiceUnavailable, match='no service port 81 found for service "s"'):
        locations.service_port_name(service, ProxyTarget(name="s", port="81"))
    slices = [
        _slice("IPv6", "fd00::1"),
        _slice("IPv4", "10.0.0.1", "127.0.0.1", "10.0.0.2"),
        _slice("IPv4", "10.0.0.3", is_ready=False),
        _slice("IPv4", "10.0.0.4", port="tls"),
    ]
    target = ProxyTarget(name="s", port="80")
    candidates = locations.service_locations(slices, "web", target, ["IPv4", "IPv6"])
    assert [location.authority for location in candidates] == ["10.0.0.1:8080", "10.0.0.2:8080"]
    assert len(locations.service_locations(slices, "web", target)) == 3
    assert len(locations.service_locations(slices[:1], "web", target, ["IPv4"])) == 1
    with pytest.raises(errors.ServiceUnavailable, match='no endpoints available for service "s"'):
        locations.service_locations([], "web", ProxyTarget(name="s"))


def _slice(family: str, *addresses: str, port: str = "web", is_ready: bool | None = None) -> EndpointSlice:
    conditions = EndpointConditions(ready=is_ready)
    endpoints = [Endpoint(addresses=[address], conditions=conditions) for address in addresses]
    return EndpointSlice(addressType=family, endpoints=endpoints, ports=[EndpointPort(name=port, port=8080)])


def test_subsets_of_endpoints_are_read_as_slices() -> None:
    pod = ObjectReference(kind="Pod", name="p")
    addresses = [EndpointAddress(ip="10.0.0.1", targetRef=pod), EndpointAddress(ip="10.0.0.2")]
    subset = EndpointSubset(addresses=addresses, ports=[SubsetPort(port=8080)])
    endpoints = Endpoints(metadata=ObjectMeta(name="s", namespace="n"), subsets=[subset])
    slices = locations.slices_of_endpoints(endpoints)
    candidates = locations.service_locations(slices, "", ProxyTarget(name="s"))
    assert [(location.authority, location.pod) for location in candidates] == [
        ("10.0.0.1:8080", ("n", "p")),
        ("10.0.0.2:8080", None),
    ]


def test_node_address_follows_the_preferred_address_types() -> None:
    addresses = [NodeAddress(type="Hostname", address="n"), NodeAddress(type="InternalIP", address="10.0.0.9")]
    node = Node(metadata=ObjectMeta(name="n"), status=NodeStatus(addresses=addresses))
    assert locations.node_address(node, ["InternalIP", "Hostname"]) == "10.0.0.9"
    assert locations.node_address(node, ["Hostname"]) == "n"
    assert locations.kubelet_port(node) == 10250
    with pytest.raises(errors.ApiError, match="no preferred addresses found"):
        locations.node_address(node, ["ExternalIP"])


@pytest.mark.parametrize(
    ("published", "port", "is_kubelet"),
    [(0, 0, True), (0, 10250, True), (0, 10249, False), (10251, 10251, True), (10251, 10250, True), (22, 6443, False)],
)
def test_port_of_the_kubelet_is_the_published_or_the_default_one(published: int, port: int, is_kubelet: bool) -> None:
    endpoints = NodeDaemonEndpoints(kubeletEndpoint=DaemonEndpoint(Port=published))
    node = Node(status=NodeStatus(daemonEndpoints=endpoints))
    assert locations.is_kubelet_port(node, port) == is_kubelet


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        ("/api/v1/nodes/n/proxy", ("/api/v1/nodes/n/proxy", "")),
        ("/api/v1/nodes/n/proxy/", ("/api/v1/nodes/n/proxy", "/")),
        ("/api/v1/nodes/n/proxy/a//b%2Fc/", ("/api/v1/nodes/n/proxy", "/a//b%2Fc/")),
        ("/api/v1/proxy/nodes/n/logs/", ("/api/v1/proxy/nodes/n", "/logs/")),
        ("/api/v1/namespaces/x/pods/https:p:1/proxy/y", ("/api/v1/namespaces/x/pods/https:p:1/proxy", "/y")),
        ("/api/v1/proxy/namespaces/x/services/s", ("/api/v1/proxy/namespaces/x/services/s", "")),
    ],
)
def test_proxy_path_is_split_into_prefix_and_tail(raw: str, parts: tuple[str, str]) -> None:
    assert split_path(raw) == parts
