from __future__ import annotations

from ipaddress import ip_network

import msgspec
import pytest

from sampan.api.limits import SERVICE_ADDRESS_PORTS, SERVICE_ENDPOINT_PORTS
from sampan.api.types.core_v1 import LoadBalancerIngress
from sampan.api.types.discovery_v1 import EndpointPort
from sampan.network.proxy.services import (
    HEADLESS,
    IPV4,
    IPV6,
    SERVICE_PROXY_NAME,
    EndpointInfo,
    ProxyTopology,
    ServicePortName,
    ServicePortState,
    service_of_slice,
    service_ports,
)
from sampan.network.proxy.tracker import ResolvedService, resolve
from tests.input_cost import is_quick
from tests.network.proxy.objects import NODE, endpoint, endpoint_slice, port, service

ADDRESSES = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
LOCAL: dict[str, object] = {"externalTrafficPolicy": "Local", "type": "NodePort"}


def addresses(endpoints: tuple[EndpointInfo, ...]) -> list[str]:
    return [endpoint.address for endpoint in endpoints]


def resolve_port(spec: dict[str, object], *endpoints: object, zone: str = "a") -> ServicePortState:
    node_port = port(node_port=30080 if spec.get("type") == "NodePort" else 0)
    states = resolve(
        service("web", node_port, **spec),  # type: ignore[arg-type]
        [endpoint_slice("web", *endpoints)],  # type: ignore[arg-type]
        (IPV4,),
        ProxyTopology(node_name=NODE, zone=zone),
    )
    return states.ports[0]


class TestHostileServices:
    """Services by which a user could try to exhaust the proxy, which shares a process with other components."""

    def test_ports_times_addresses_and_source_ranges_are_limited(self) -> None:
        hostile = service(
            "web",
            *(port(number, name=f"p{number}") for number in range(1, 2001)),
            type="LoadBalancer",
            externalIPs=[f"10.1.{number >> 8}.{number & 255}" for number in range(2000)],
            loadBalancerSourceRanges=[f"10.2.{number >> 8}.{number & 255}/32" for number in range(2000)],
        )
        assert is_quick(lambda: service_ports(hostile))
        infos = service_ports(hostile)
        assert len(infos) * (len(infos[0].external_ips) + len(infos[0].source_ranges)) <= SERVICE_ADDRESS_PORTS
        assert infos[0].external_ips is infos[-1].external_ips
        (problem,) = resolve(hostile, (), (IPV4,), ProxyTopology(node_name=NODE)).problems
        assert "only 12 of its 2000 ports are proxied" in problem

    def test_ports_times_endpoints_are_limited(self) -> None:
        names = [f"p{number}" for number in range(1, 301)]
        slice = endpoint_slice("web", *(endpoint(f"10.1.{number >> 8}.{number & 255}") for number in range(1000)))
        slice.ports = [EndpointPort(name=name, port=80, protocol="TCP") for name in names]
        hostile = service("web", *(port(number, name=name) for number, name in enumerate(names, 1)))

        def states() -> ResolvedService:
            return resolve(hostile, [slice], (IPV4,), ProxyTopology(node_name=NODE))

        assert is_quick(states)
        assert sum(len(state.endpoints) for state in states().ports) <= SERVICE_ENDPOINT_PORTS
        assert len(states().ports[0].endpoints) == 1000
        assert "pairs of ports and endpoints" in states().problems[0]

    @pytest.mark.parametrize("number", [-1, 0, 65536, 70000, 2**31 - 1, None])
    def test_endpoints_with_an_invalid_port_are_ignored(self, number: int | None) -> None:
        """The API server accepts such slices, as that of Kubernetes does."""
        hostile = endpoint_slice("web", endpoint("10.1.0.2"), name="web-2")
        hostile.ports = [EndpointPort(name="", port=number, protocol="TCP")]
        slices = [endpoint_slice("web", endpoint("10.1.0.1")), hostile]
        (state,) = resolve(service(), slices, (IPV4,), ProxyTopology(node_name=NODE)).ports
        assert [str(endpoint) for endpoint in state.endpoints] == ["10.1.0.1:8080"]


class TestServicePorts:
    def test_dual_stack_service_has_ports_of_each_family(self) -> None:
        dual = service(
            "web", port(80, name="http"), port(53, name="dns", protocol="UDP"), ip=["10.96.0.10", "fd00::10"]
        )
        ports = service_ports(dual)
        assert [(p.family, p.cluster_ip, p.port, str(p.name), p.protocol) for p in ports] == [
            (IPV4, "10.96.0.10", 80, "default/web:http", "TCP"),
            (IPV4, "10.96.0.10", 53, "default/web:dns", "UDP"),
            (IPV6, "fd00::10", 80, "default/web:http", "TCP"),
            (IPV6, "fd00::10", 53, "default/web:dns", "UDP"),
        ]

    @pytest.mark.parametrize(
        "skipped",
        [
            service(ip="None"),
            service(ip=[]),
            service(type="ExternalName", ip=[]),
            service(labels={SERVICE_PROXY_NAME: "cilium"}),
            service(labels={HEADLESS: ""}),
        ],
        ids=["headless", "no cluster IP", "ExternalName", "another proxy", "headless label"],
    )
    def test_services_that_are_not_proxied(self, skipped: object) -> None:
        assert service_ports(skipped) == []  # type: ignore[arg-type]

    def test_addresses_are_canonical_and_of_their_family(self) -> None:
        info, other = service_ports(
            service(
                ip=["10.96.0.010", "FD00:0::10"],
                type="LoadBalancer",
                externalIPs=["192.0.2.1", "192.0.2.1", "2001:DB8::1"],
                ingress=["203.0.113.1", "2001:db8::2"],
                loadBalancerSourceRanges=[" 198.51.100.9/24 ", "2001:db8::/32"],
            )
        )
        assert (info.cluster_ip, info.external_ips, info.load_balancer_ips, info.source_ranges) == (
            "10.96.0.10",
            ("192.0.2.1",),
            ("203.0.113.1",),
            (ip_network("198.51.100.0/24"),),
        )
        assert (other.cluster_ip, other.external_ips, other.load_balancer_ips, other.source_ranges) == (
            "fd00::10",
            ("2001:db8::1",),
            ("2001:db8::2",),
            (ip_network("2001:db8::/32"),),
        )

    def test_source_range_of_all_addresses_removes_the_restriction(self) -> None:
        [info] = service_ports(service(type="LoadBalancer", loadBalancerSourceRanges=["198.51.100.0/24", "0.0.0.0/0"]))
        assert info.source_ranges == ()

    def test_only_ingress_addresses_with_ip_mode_vip_are_used(self) -> None:
        load_balanced = service(type="LoadBalancer")
        load_balanced.status.loadBalancer.ingress = [
            LoadBalancerIngress(ip="203.0.113.1", ipMode="Proxy"),
            LoadBalancerIngress(ip="203.0.113.2", ipMode="VIP"),
            LoadBalancerIngress(hostname="lb.example"),
        ]
        assert service_ports(load_balanced)[0].load_balancer_ips == ("203.0.113.2",)

    def test_session_affinity_timeout(self) -> None:
        assert service_ports(service(affinity_s=30))[0].affinity_timeout_s == 30
        assert service_ports(service(sessionAffinity="ClientIP"))[0].affinity_timeout_s == 10800
        assert service_ports(service())[0].affinity_timeout_s == 0

    @pytest.mark.parametrize(
        ("spec", "is_local", "health_port"),
        [
            ({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 32000}, True, 32000),
            ({"type": "LoadBalancer", "externalTrafficPolicy": "Cluster", "healthCheckNodePort": 32000}, False, 0),
            ({"type": "NodePort", "externalTrafficPolicy": "Local"}, True, 0),
            ({"externalIPs": ["192.0.2.1"], "externalTrafficPolicy": "Local"}, True, 0),
            ({"externalTrafficPolicy": "Local"}, False, 0),
        ],
    )
    def test_external_traffic_policy_and_health_check_node_port(
        self, spec: dict[str, object], is_local: bool, health_port: int
    ) -> None:
        [info] = service_ports(service(**spec))  # type: ignore[arg-type]
        assert (info.is_external_policy_local, info.health_check_node_port) == (is_local, health_port)


class TestEndpoints:
    def test_service_of_slice(self) -> None:
        named = endpoint_slice("web")
        assert str(service_of_slice(named)) == "default/web"
        assert service_of_slice(endpoint_slice("")) is None
        assert service_of_slice(endpoint_slice("web", labels={HEADLESS: ""})) is None
        assert service_of_slice(endpoint_slice("web", labels={SERVICE_PROXY_NAME: "cilium"})) is None
        assert service_of_slice(msgspec.structs.replace(named, addressType="FQDN")) is None

    def test_ports_are_matched_by_name_and_protocol(self) -> None:
        states = resolve(
            service("web", port(53, name="dns", protocol="UDP"), port(53, name="dns", protocol="TCP")),
            [endpoint_slice("web", endpoint("10.0.0.1"), port_name="dns", protocol="UDP", number=5353)],
            (IPV4,),
            ProxyTopology(node_name=NODE),
        )
        assert {s.info.name: [str(e) for e in s.endpoints] for s in states.ports} == {
            ServicePortName("default", "web", "dns", "UDP"): ["10.0.0.1:5353"],
            ServicePortName("default", "web", "dns", "TCP"): [],
        }

    def test_address_in_two_slices_uses_the_endpoint_that_is_not_terminating(self) -> None:
        terminating_endpoint = endpoint("10.0.0.1", ready=False, serving=True, terminating=True)
        for first, second in [
            (terminating_endpoint, endpoint("10.0.0.1")),
            (endpoint("10.0.0.1"), terminating_endpoint),
        ]:
            [state] = resolve(
                service(),
                [endpoint_slice("web", first, name="a"), endpoint_slice("web", second, name="b")],
                (IPV4,),
                ProxyTopology(node_name=NODE),
            ).ports
            assert [e.is_terminating for e in state.endpoints] == [False]

    def test_unset_conditions_mean_ready_and_serving(self) -> None:
        [info] = resolve_port({}, endpoint("10.0.0.1", ready=None, serving=None)).endpoints
        assert (info.is_ready, info.is_serving, info.is_terminating) == (True, True, False)

    def test_local_ready_addresses(self) -> None:
        state = resolve_port(
            LOCAL, endpoint("10.0.0.1", node=NODE), endpoint("10.0.0.2"), endpoint("10.0.0.3", ready=False)
        )
        assert state.local_ready_addresses == {"10.0.0.1"}


class TestCategories:
    def test_only_ready_endpoints_are_used(self) -> None:
        state = resolve_port({}, endpoint("10.0.0.1"), endpoint("10.0.0.2", ready=False), endpoint("10.0.0.3"))
        assert addresses(state.categories.cluster) == ["10.0.0.1", "10.0.0.3"]
        assert (state.categories.local, state.categories.has_any) == ((), True)

    def test_terminating_endpoints_are_used_if_no_endpoint_is_ready(self) -> None:
        terminating_endpoint = endpoint("10.0.0.1", ready=False, serving=True, terminating=True)
        assert addresses(resolve_port({}, terminating_endpoint, endpoint("10.0.0.2")).categories.cluster) == [
            "10.0.0.2"
        ]
        assert addresses(
            resolve_port({}, terminating_endpoint, endpoint("10.0.0.2", ready=False)).categories.cluster
        ) == ["10.0.0.1"]

    def test_has_any_is_false_without_usable_endpoints(self) -> None:
        assert not resolve_port({}).categories.has_any
        assert not resolve_port({}, endpoint("10.0.0.1", ready=False)).categories.has_any

    def test_external_traffic_policy_local(self) -> None:
        categories = resolve_port(LOCAL, endpoint("10.0.0.1", node=NODE), endpoint("10.0.0.2")).categories
        assert addresses(categories.local) == ["10.0.0.1"]
        assert addresses(categories.cluster) == addresses(categories.reachable) == ["10.0.0.1", "10.0.0.2"]

    def test_local_terminating_endpoints_are_reachable_beside_remote_ready_endpoints(self) -> None:
        terminating_endpoint = endpoint("10.0.0.1", node=NODE, ready=False, serving=True, terminating=True)
        categories = resolve_port(LOCAL, terminating_endpoint, endpoint("10.0.0.2")).categories
        assert addresses(categories.local) == ["10.0.0.1"]
        assert addresses(categories.cluster) == ["10.0.0.2"]
        assert addresses(categories.reachable) == ["10.0.0.1", "10.0.0.2"]

    def test_internal_traffic_policy_local(self) -> None:
        categories = resolve_port({"internalTrafficPolicy": "Local"}, endpoint("10.0.0.1")).categories
        assert (categories.cluster, categories.local, categories.reachable) == ((), (), ())
        assert categories.has_any

    @pytest.mark.parametrize(
        ("hints", "zone", "used"),
        [
            ([{"zones": ["a"]}, {"zones": ["b"]}, {"zones": ["a", "b"]}], "a", ["10.0.0.1", "10.0.0.3"]),
            ([{"zones": ["a"]}, {"zones": ["b"]}, {}], "a", ADDRESSES),
            ([{"zones": ["b"]}, {"zones": ["b"]}, {"zones": ["b"]}], "a", ADDRESSES),
            ([{"zones": ["b"]}, {"zones": ["b"]}, {"zones": ["b"]}], "", ADDRESSES),
            ([{"nodes": [NODE]}, {"nodes": ["x"]}, {"nodes": ["x"]}], "a", ["10.0.0.1"]),
            ([{"nodes": [NODE]}, {"nodes": ["x"]}, {}], "a", ADDRESSES),
            (
                [{"nodes": ["x"], "zones": ["a"]}, {"nodes": ["x"], "zones": ["b"]}, {"nodes": ["y"], "zones": ["b"]}],
                "a",
                ["10.0.0.1"],
            ),
        ],
        ids=["zone", "not all zones", "other zone", "no zone", "node", "not all nodes", "zone instead of node"],
    )
    def test_topology_hints(self, hints: list[dict[str, list[str]]], zone: str, used: list[str]) -> None:
        endpoints = [
            endpoint(address, **hint)  # type: ignore[arg-type]
            for address, hint in zip(ADDRESSES, hints, strict=True)
        ]
        assert addresses(resolve_port({}, *endpoints, zone=zone).categories.cluster) == used

    def test_hints_of_endpoints_that_are_not_ready_are_ignored(self) -> None:
        state = resolve_port({}, endpoint("10.0.0.1", zones=["a"]), endpoint("10.0.0.2", ready=False))
        assert addresses(state.categories.cluster) == ["10.0.0.1"]
