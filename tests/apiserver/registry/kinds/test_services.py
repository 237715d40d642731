"""Allocation of cluster IPs and node ports for services. The golden replay covers their validation and defaults."""

import asyncio
from typing import Any

import pytest

from sampan.apiserver.registry.allocation import ServiceRanges
from tests.apiserver.registry.shared_store_servers import NAMESPACE, ApiServer, open_servers, run_with_server

SERVICES = f"{NAMESPACE}/services"
DUAL = ServiceRanges.parse("10.96.0.0/24,fd00::/120")
PORTS = [{"port": 80}]


def service(name: str = "a", ports: Any = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": PORTS if ports is None else ports, **spec}}


async def list_allocated_ips(server: ApiServer) -> set[str]:
    """Return the allocated cluster IPs."""
    _, response = await server.send("GET", "/apis/networking.k8s.io/v1/ipaddresses")
    return {item["metadata"]["name"] for item in response["items"]}


async def list_allocated_ports(server: ApiServer) -> set[int]:
    return set(await server.services.node_ports.change(lambda bitmap: bitmap))


# -- addresses -------------------------------------------------------------------------------------------------------


def test_cluster_ip_is_allocated_kept_and_released() -> None:
    async def work(server: ApiServer) -> None:
        created = await server.make(SERVICES, service())
        (address,) = created["spec"]["clusterIPs"]
        assert await list_allocated_ips(server) == {address}
        changed = await server.change(f"{SERVICES}/a", {"metadata": {"labels": {"x": "y"}}})
        assert changed["spec"] == created["spec"]
        code, deleted = await server.send("DELETE", f"{SERVICES}/a")
        assert (code, deleted["kind"]) == (200, "Service")
        assert await list_allocated_ips(server) == set()

    run_with_server(work)


def test_ip_address_object_refers_to_its_service() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(SERVICES, service(clusterIP="10.96.0.9"))
        _, address = await server.send("GET", "/apis/networking.k8s.io/v1/ipaddresses/10.96.0.9")
        assert address["spec"] == {"parentRef": {"resource": "services", "namespace": "ns", "name": "a"}}
        assert address["metadata"]["labels"] == {
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        }

    run_with_server(work)


@pytest.mark.parametrize("target", [SERVICES, f"{SERVICES}?dryRun=All"])
def test_rejected_or_dry_run_create_allocates_nothing(target: str) -> None:
    async def work(server: ApiServer) -> None:
        faulty = service(ports=[{"port": 80, "protocol": "Odd"}], type="NodePort", clusterIP="10.96.0.9")
        assert (await server.send("POST", target, faulty))[0] == 422
        good = service("good", type="LoadBalancer", externalTrafficPolicy="Local")
        code, created = await server.send("POST", target, good)
        cluster_ips = {created["spec"]["clusterIP"]} if target == SERVICES else set()
        assert code == 201
        assert await list_allocated_ips(server) == cluster_ips
        assert len(await list_allocated_ports(server)) == 2 * len(cluster_ips)

    run_with_server(work)


def test_create_with_existing_name_allocates_nothing() -> None:
    async def work(server: ApiServer) -> None:
        created = await server.make(SERVICES, service(type="NodePort"))
        assert (await server.send("POST", SERVICES, service(type="NodePort")))[0] == 409
        assert await list_allocated_ips(server) == {created["spec"]["clusterIP"]}
        assert await list_allocated_ports(server) == {created["spec"]["ports"][0]["nodePort"]}

    run_with_server(work)


def test_create_fails_if_cluster_ip_range_is_full() -> None:
    async def work(server: ApiServer) -> None:
        for name in ("a", "b"):
            await server.make(SERVICES, service(name))
        code, rejected = await server.send("POST", SERVICES, service("c"))
        assert code == 500
        text = 'failed to allocate a serviceIP for Service "c": range is full'
        assert rejected["message"] == f"Internal error occurred: {text}"

    run_with_server(work, ranges=ServiceRanges.parse("10.0.0.0/30"))


def test_network_and_broadcast_addresses_cannot_be_allocated() -> None:
    async def work(server: ApiServer) -> None:
        why = "the provided network does not match the current range"
        for address in ("10.96.0.0", "10.96.255.255", "10.97.0.1"):
            faults = await server.send_invalid("POST", SERVICES, service(clusterIP=address))
            assert faults == [f'spec.clusterIPs: Invalid value: ["{address}"]: failed to allocate IP {address}: {why}']

    run_with_server(work)


def test_added_service_cidr_is_used_only_while_ready() -> None:
    async def work(server: ApiServer) -> None:
        path, ready = "/apis/networking.k8s.io/v1/servicecidrs", {"type": "Ready", "reason": "R", "message": ""}
        await server.make(path, {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.9.0.0/24"]}})
        created = await server.make(SERVICES, service(clusterIP="10.9.0.7"))
        assert created["spec"]["clusterIP"] == "10.9.0.7"
        condition = {**ready, "status": "False", "lastTransitionTime": "2024-01-01T00:00:00Z"}
        await server.change(f"{path}/more/status", {"status": {"conditions": [condition]}})
        why = "failed to allocate IP 10.9.0.8: the provided network does not match the current range"
        assert await server.send_invalid("POST", SERVICES, service("b", clusterIP="10.9.0.8")) == [
            f'spec.clusterIPs: Invalid value: ["10.9.0.8"]: {why}'
        ]
        await server.change(f"{path}/more/status", {"status": {"conditions": [{**condition, "status": "True"}]}})
        assert (await server.make(SERVICES, service("b", clusterIP="10.9.0.8")))["spec"]["clusterIP"] == "10.9.0.8"

    run_with_server(work)


def test_dual_stack_service_can_become_single_stack_and_dual_stack_again() -> None:
    async def work(server: ApiServer) -> None:
        spec = (await server.make(SERVICES, service(ipFamilyPolicy="PreferDualStack")))["spec"]
        assert spec["ipFamilies"] == ["IPv4", "IPv6"]
        assert [":" in address for address in spec["clusterIPs"]] == [False, True]
        assert await list_allocated_ips(server) == set(spec["clusterIPs"])
        single = (await server.change(f"{SERVICES}/a", {"spec": {"ipFamilyPolicy": "SingleStack"}}))["spec"]
        assert single["clusterIPs"] == spec["clusterIPs"][:1]
        assert single["ipFamilies"] == ["IPv4"]
        assert await list_allocated_ips(server) == set(single["clusterIPs"])
        again = (await server.change(f"{SERVICES}/a", {"spec": {"ipFamilyPolicy": "RequireDualStack"}}))["spec"]
        assert again["ipFamilies"] == ["IPv4", "IPv6"]
        assert len(await list_allocated_ips(server)) == 2

    run_with_server(work, ranges=DUAL)


def test_first_service_cidr_sets_the_preferred_ip_family() -> None:
    async def work(server: ApiServer) -> None:
        spec = (await server.make(SERVICES, service()))["spec"]
        assert spec["ipFamilies"] == ["IPv6"]
        assert spec["clusterIP"].startswith("fd00::")
        requested = (await server.make(SERVICES, service("b", clusterIP="10.96.0.7")))["spec"]
        assert requested["ipFamilies"] == ["IPv4"]

    run_with_server(work, ranges=ServiceRanges.parse("fd00::/120,10.96.0.0/24"))


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (
            {"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7", "10.96.0.8"], "ipFamilyPolicy": "PreferDualStack"},
            'spec.clusterIPs: Invalid value: ["10.96.0.7","10.96.0.8"]: may specify no more than one IP for each IP '
            "family",
        ),
        (
            {"clusterIP": "10.96.0.7", "ipFamilies": ["IPv6"]},
            'spec.clusterIPs[0]: Invalid value: "10.96.0.7": expected an IPv6 value as indicated by `ipFamilies[0]`',
        ),
        (
            {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "SingleStack"},
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when "
            "multiple IP families are specified",
        ),
        (
            {"clusterIPs": ["10.96.0.7"]},
            'spec.clusterIPs: Invalid value: ["10.96.0.7"]: must be empty when `clusterIP` is not specified',
        ),
    ],
)
def test_inconsistent_ip_families_and_cluster_ips_are_rejected(spec: dict[str, Any], error: str) -> None:
    async def work(server: ApiServer) -> None:
        assert await server.send_invalid("POST", SERVICES, service(**spec)) == [error]

    run_with_server(work, ranges=DUAL)


def test_secondary_ip_family_is_released_only_with_single_stack_policy() -> None:
    async def work(server: ApiServer) -> None:
        created = (await server.make(SERVICES, service(ipFamilyPolicy="RequireDualStack")))["spec"]
        fewer = {"spec": {"clusterIPs": created["clusterIPs"][:1], "ipFamilies": ["IPv4"]}}
        faults = await server.send_invalid("PATCH", f"{SERVICES}/a", fewer)
        why = "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary"
        assert faults == [f"{why} cluster IP", f"{why} IP family"]

    run_with_server(work, ranges=DUAL)


# -- node ports ------------------------------------------------------------------------------------------------------


def test_node_ports_are_allocated_according_to_service_type() -> None:
    async def work(server: ApiServer) -> None:
        created = await server.make(SERVICES, service(type="NodePort"))
        (port,) = await list_allocated_ports(server)
        assert created["spec"]["ports"][0]["nodePort"] == port
        assert 30000 <= port <= 32767
        plain = await server.change(f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}})
        assert "nodePort" not in plain["spec"]["ports"][0]
        assert await list_allocated_ports(server) == set()
        await server.change(f"{SERVICES}/a", {"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}})
        assert len(await list_allocated_ports(server)) == 2
        await server.change(f"{SERVICES}/a", {"spec": {"type": "ExternalName", "externalName": "x.y"}})
        assert await list_allocated_ports(server) == set()
        assert await list_allocated_ips(server) == set()

    run_with_server(work)


def test_tcp_and_udp_ports_of_the_same_number_share_a_node_port() -> None:
    async def work(server: ApiServer) -> None:
        ports = [{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}, {"name": "o", "port": 54}]
        created = await server.make(SERVICES, service(ports=ports, type="NodePort"))
        tcp, udp, other = [port["nodePort"] for port in created["spec"]["ports"]]
        assert tcp == udp != other
        assert await list_allocated_ports(server) == {tcp, other}
        fewer = {"spec": {"ports": [created["spec"]["ports"][1]]}}
        await server.change(f"{SERVICES}/a", fewer)
        assert await list_allocated_ports(server) == {udp}

    run_with_server(work)


def test_put_of_the_same_manifest_keeps_allocated_ports() -> None:
    async def work(server: ApiServer) -> None:
        manifest = service(type="LoadBalancer", externalTrafficPolicy="Local")
        created = await server.make(SERVICES, manifest)
        code, again = await server.send("PUT", f"{SERVICES}/a", manifest)
        assert code == 200
        assert again == created

    run_with_server(work)


def test_rejected_update_releases_its_allocations() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(SERVICES, service())
        change = {"spec": {"type": "NodePort", "sessionAffinity": "Odd"}}
        assert (await server.send("PATCH", f"{SERVICES}/a", change))[0] == 422
        assert await list_allocated_ports(server) == set()
        more = {"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 31000}, {"port": 81, "nodePort": 80}]}}
        faults = await server.send_invalid("PATCH", f"{SERVICES}/a", more)
        assert faults[0].startswith(
            "spec.ports[1].nodePort: Invalid value: 80: provided port is not in the valid range"
        )
        assert await list_allocated_ports(server) == set()

    run_with_server(work)


def test_create_fails_if_health_check_node_port_is_allocated() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(SERVICES, service(type="NodePort", ports=[{"port": 80, "nodePort": 31000}]))
        manifest = service("b", type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=31000)
        code, rejected = await server.send("POST", SERVICES, manifest)
        why = "failed to allocate requested HealthCheck NodePort 31000: provided port is already allocated"
        assert (code, rejected["message"]) == (500, f"Internal error occurred: {why}")
        assert await list_allocated_ports(server) == {31000}
        assert len(await list_allocated_ips(server)) == 1

    run_with_server(work)


def test_create_fails_if_node_port_range_is_full() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(SERVICES, service(type="NodePort"))
        code, rejected = await server.send("POST", SERVICES, service("b", type="NodePort"))
        assert (code, rejected["message"]) == (
            500,
            "Internal error occurred: failed to allocate a nodePort: range is full",
        )

    run_with_server(work, ranges=ServiceRanges.parse("10.96.0.0/16", (30000, 30000)))


# -- several servers -------------------------------------------------------------------------------------------------


async def test_two_servers_do_not_allocate_the_same_address_or_port() -> None:
    ranges = ServiceRanges.parse("10.96.0.0/26", (30000, 30039))

    async with open_servers(2, ranges=ranges) as servers:
        created = await asyncio.gather(
            *(servers[n % 2].make(SERVICES, service(f"s{n}", type="NodePort")) for n in range(40))
        )
        assert len({service_["spec"]["clusterIP"] for service_ in created}) == 40
        assert len({service_["spec"]["ports"][0]["nodePort"] for service_ in created}) == 40
        await asyncio.gather(*(servers[(n + 1) % 2].send("DELETE", f"{SERVICES}/s{n}") for n in range(40)))
        assert await list_allocated_ips(servers[0]) == set() == await list_allocated_ports(servers[1])


async def test_requested_cluster_ip_is_allocated_once_by_concurrent_servers() -> None:
    async with open_servers(2) as servers:
        manifests = [service(f"s{n}", clusterIP="10.96.0.9") for n in range(6)]
        codes = [
            code
            for code, _ in await asyncio.gather(
                *(servers[n % 2].send("POST", SERVICES, value) for n, value in enumerate(manifests))
            )
        ]
        assert sorted(codes) == [201, *[422] * 5]


# -- other rules -----------------------------------------------------------------------------------------------------


def test_endpoints_of_a_deleted_service_are_left_to_their_controller() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(SERVICES, service())
        await server.make(f"{NAMESPACE}/endpoints", {"metadata": {"name": "a"}})
        await server.send("DELETE", f"{SERVICES}/a")
        assert (await server.send("GET", f"{NAMESPACE}/endpoints/a"))[0] == 200

    run_with_server(work)


def test_put_creates_missing_service() -> None:
    async def work(server: ApiServer) -> None:
        code, created = await server.send("PUT", f"{SERVICES}/a", service())
        assert code == 201
        assert await list_allocated_ips(server) == {created["spec"]["clusterIP"]}

    run_with_server(work)


@pytest.mark.parametrize(
    ("spec", "warning"),
    [
        ({"clusterIP": "None", "sessionAffinity": "ClientIP"}, "spec.SessionAffinity is ignored for headless services"),
        ({"clusterIP": "None", "loadBalancerIP": "1.2.3.4"}, "spec.loadBalancerIP is ignored for headless services"),
        ({"clusterIP": "None", "externalIPs": ["1.2.3.4"]}, "spec.externalIPs is ignored for headless services"),
        ({"externalName": "x.y"}, 'spec.externalName is ignored when spec.type is not "ExternalName"'),
        (
            {"type": "ExternalName", "externalName": "x.y", "externalIPs": ["1.2.3.4"]},
            'spec.externalIPs is ignored when spec.type is "ExternalName"',
        ),
        (
            {"type": "LoadBalancer", "loadBalancerIP": "FD00::1"},
            'spec.loadBalancerIP: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")',
        ),
    ],
)
def test_warnings(spec: dict[str, Any], warning: str) -> None:
    async def work(server: ApiServer) -> None:
        await server.make(SERVICES, service(**spec))
        assert server.warnings == [warning]

    run_with_server(work)
