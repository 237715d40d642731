"""Services: what they get, what they keep, what they give back. The recordings have the faults and the defaults."""

import asyncio
from typing import Any

import pytest

from sampan.apiserver.registry.allocation import ServiceRanges
from tests.apiserver.registry.shared_store_servers import NAMESPACE, ApiServer, several, with_server

SERVICES = f"{NAMESPACE}/services"
DUAL = ServiceRanges.parse("10.96.0.0/24,fd00::/120")
PORTS = [{"port": 80}]


def service(name: str = "a", ports: Any = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": PORTS if ports is None else ports, **spec}}


async def addresses(server: ApiServer) -> set[str]:
    """The addresses that are taken."""
    _, response = await server.ask("GET", "/apis/networking.k8s.io/v1/ipaddresses")
    return {item["metadata"]["name"] for item in response["items"]}


async def node_ports(server: ApiServer) -> set[int]:
    return set(await server.registry.node_ports.change(lambda bitmap: bitmap))


# -- addresses -------------------------------------------------------------------------------------------------------


def test_an_address_is_taken_kept_and_given_back() -> None:
    async def work(server: ApiServer) -> None:
        created = await server.make(SERVICES, service())
        (address,) = created["spec"]["clusterIPs"]
        assert await addresses(server) == {address}
        changed = await server.change(f"{SERVICES}/a", {"metadata": {"labels": {"x": "y"}}})
        assert changed["spec"] == created["spec"]
        code, gone = await server.ask("DELETE", f"{SERVICES}/a")
        assert (code, gone["kind"]) == (200, "Service")
        assert await addresses(server) == set()

    with_server(work)


def test_the_object_of_an_address_says_whose_it_is() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(SERVICES, service(clusterIP="10.96.0.9"))
        _, address = await server.ask("GET", "/apis/networking.k8s.io/v1/ipaddresses/10.96.0.9")
        assert address["spec"] == {"parentRef": {"resource": "services", "namespace": "ns", "name": "a"}}
        assert address["metadata"]["labels"] == {
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        }

    with_server(work)


@pytest.mark.parametrize("target", [SERVICES, f"{SERVICES}?dryRun=All"])
def test_a_write_that_comes_to_nothing_takes_nothing(target: str) -> None:
    async def work(server: ApiServer) -> None:
        faulty = service(ports=[{"port": 80, "protocol": "Odd"}], type="NodePort", clusterIP="10.96.0.9")
        assert (await server.ask("POST", target, faulty))[0] == 422
        good = service("good", type="LoadBalancer", externalTrafficPolicy="Local")
        code, created = await server.ask("POST", target, good)
        cluster_ips = {created["spec"]["clusterIP"]} if target == SERVICES else set()
        assert code == 201
        assert await addresses(server) == cluster_ips
        assert len(await node_ports(server)) == 2 * len(cluster_ips)

    with_server(work)


def test_a_name_that_is_taken_takes_nothing_more() -> None:
    async def work(server: ApiServer) -> None:
        created = await server.make(SERVICES, service(type="NodePort"))
        assert (await server.ask("POST", SERVICES, service(type="NodePort")))[0] == 409
        assert await addresses(server) == {created["spec"]["clusterIP"]}
        assert await node_ports(server) == {created["spec"]["ports"][0]["nodePort"]}

    with_server(work)


def test_a_full_range() -> None:
    async def work(server: ApiServer) -> None:
        for name in ("a", "b"):
            await server.make(SERVICES, service(name))
        code, refused = await server.ask("POST", SERVICES, service("c"))
        assert code == 500
        text = 'failed to allocate a serviceIP for Service "c": range is full'
        assert refused["message"] == f"Internal error occurred: {text}"

    with_server(work, ranges=ServiceRanges.parse("10.0.0.0/30"))


def test_the_ends_of_a_network_are_no_addresses() -> None:
    async def work(server: ApiServer) -> None:
        why = "the provided network does not match the current range"
        for address in ("10.96.0.0", "10.96.255.255", "10.97.0.1"):
            faults = await server.refused("POST", SERVICES, service(clusterIP=address))
            assert faults == [f'spec.clusterIPs: Invalid value: ["{address}"]: failed to allocate IP {address}: {why}']

    with_server(work)


def test_another_network_may_be_added_and_one_that_is_not_ready_is_not_used() -> None:
    async def work(server: ApiServer) -> None:
        path, ready = "/apis/networking.k8s.io/v1/servicecidrs", {"type": "Ready", "reason": "R", "message": ""}
        await server.make(path, {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.9.0.0/24"]}})
        created = await server.make(SERVICES, service(clusterIP="10.9.0.7"))
        assert created["spec"]["clusterIP"] == "10.9.0.7"
        condition = {**ready, "status": "False", "lastTransitionTime": "2024-01-01T00:00:00Z"}
        await server.change(f"{path}/more/status", {"status": {"conditions": [condition]}})
        assert await server.refused("POST", SERVICES, service("b", clusterIP="10.9.0.8"))

    with_server(work)


def test_what_services_have_of_two_families() -> None:
    async def work(server: ApiServer) -> None:
        spec = (await server.make(SERVICES, service(ipFamilyPolicy="PreferDualStack")))["spec"]
        assert spec["ipFamilies"] == ["IPv4", "IPv6"]
        assert [":" in address for address in spec["clusterIPs"]] == [False, True]
        assert await addresses(server) == set(spec["clusterIPs"])
        single = (await server.change(f"{SERVICES}/a", {"spec": {"ipFamilyPolicy": "SingleStack"}}))["spec"]
        assert single["clusterIPs"] == spec["clusterIPs"][:1]
        assert single["ipFamilies"] == ["IPv4"]
        assert await addresses(server) == set(single["clusterIPs"])
        again = (await server.change(f"{SERVICES}/a", {"spec": {"ipFamilyPolicy": "RequireDualStack"}}))["spec"]
        assert again["ipFamilies"] == ["IPv4", "IPv6"]
        assert len(await addresses(server)) == 2

    with_server(work, ranges=DUAL)


def test_the_preferred_family_is_that_of_the_first_network() -> None:
    async def work(server: ApiServer) -> None:
        spec = (await server.make(SERVICES, service()))["spec"]
        assert spec["ipFamilies"] == ["IPv6"]
        assert spec["clusterIP"].startswith("fd00::")
        requested = (await server.make(SERVICES, service("b", clusterIP="10.96.0.7")))["spec"]
        assert requested["ipFamilies"] == ["IPv4"]

    with_server(work, ranges=ServiceRanges.parse("fd00::/120,10.96.0.0/24"))


@pytest.mark.parametrize(
    ("spec", "fault"),
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
def test_families_and_addresses_that_do_not_fit(spec: dict[str, Any], fault: str) -> None:
    async def work(server: ApiServer) -> None:
        assert await server.refused("POST", SERVICES, service(**spec)) == [fault]

    with_server(work, ranges=DUAL)


def test_a_family_is_given_up_by_asking_for_a_single_stack_only() -> None:
    async def work(server: ApiServer) -> None:
        created = (await server.make(SERVICES, service(ipFamilyPolicy="RequireDualStack")))["spec"]
        fewer = {"spec": {"clusterIPs": created["clusterIPs"][:1], "ipFamilies": ["IPv4"]}}
        faults = await server.refused("PATCH", f"{SERVICES}/a", fewer)
        why = "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary"
        assert faults == [f"{why} cluster IP", f"{why} IP family"]

    with_server(work, ranges=DUAL)


# -- node ports ------------------------------------------------------------------------------------------------------


def test_node_ports_follow_the_type() -> None:
    async def work(server: ApiServer) -> None:
        created = await server.make(SERVICES, service(type="NodePort"))
        (port,) = await node_ports(server)
        assert created["spec"]["ports"][0]["nodePort"] == port
        assert 30000 <= port <= 32767
        plain = await server.change(f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}})
        assert "nodePort" not in plain["spec"]["ports"][0]
        assert await node_ports(server) == set()
        await server.change(f"{SERVICES}/a", {"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}})
        assert len(await node_ports(server)) == 2
        await server.change(f"{SERVICES}/a", {"spec": {"type": "ExternalName", "externalName": "x.y"}})
        assert await node_ports(server) == set()
        assert await addresses(server) == set()

    with_server(work)


def test_ports_of_one_number_share_a_node_port() -> None:
    async def work(server: ApiServer) -> None:
        ports = [{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}, {"name": "o", "port": 54}]
        created = await server.make(SERVICES, service(ports=ports, type="NodePort"))
        tcp, udp, other = [port["nodePort"] for port in created["spec"]["ports"]]
        assert tcp == udp != other
        assert await node_ports(server) == {tcp, other}
        fewer = {"spec": {"ports": [created["spec"]["ports"][1]]}}
        await server.change(f"{SERVICES}/a", fewer)
        assert await node_ports(server) == {udp}

    with_server(work)


def test_the_same_manifest_again_keeps_the_ports() -> None:
    async def work(server: ApiServer) -> None:
        manifest = service(type="LoadBalancer", externalTrafficPolicy="Local")
        created = await server.make(SERVICES, manifest)
        code, again = await server.ask("PUT", f"{SERVICES}/a", manifest)
        assert code == 200
        assert again == created

    with_server(work)


def test_a_refused_change_gives_back_what_it_took() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(SERVICES, service())
        change = {"spec": {"type": "NodePort", "sessionAffinity": "Odd"}}
        assert (await server.ask("PATCH", f"{SERVICES}/a", change))[0] == 422
        assert await node_ports(server) == set()
        more = {"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 31000}, {"port": 81, "nodePort": 80}]}}
        faults = await server.refused("PATCH", f"{SERVICES}/a", more)
        assert faults[0].startswith(
            "spec.ports[1].nodePort: Invalid value: 80: provided port is not in the valid range"
        )
        assert await node_ports(server) == set()

    with_server(work)


def test_a_health_check_port_that_cannot_be_had() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(SERVICES, service(type="NodePort", ports=[{"port": 80, "nodePort": 31000}]))
        manifest = service("b", type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=31000)
        code, refused = await server.ask("POST", SERVICES, manifest)
        why = "failed to allocate requested HealthCheck NodePort 31000: provided port is already allocated"
        assert (code, refused["message"]) == (500, f"Internal error occurred: {why}")
        assert await node_ports(server) == {31000}
        assert len(await addresses(server)) == 1

    with_server(work)


def test_a_full_range_of_ports() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(SERVICES, service(type="NodePort"))
        code, refused = await server.ask("POST", SERVICES, service("b", type="NodePort"))
        assert (code, refused["message"]) == (
            500,
            "Internal error occurred: failed to allocate a nodePort: range is full",
        )

    with_server(work, ranges=ServiceRanges.parse("10.96.0.0/16", (30000, 30000)))


# -- several servers -------------------------------------------------------------------------------------------------


async def test_two_servers_never_give_the_same() -> None:
    ranges = ServiceRanges.parse("10.96.0.0/26", (30000, 30039))

    async with several(2, ranges=ranges) as servers:
        created = await asyncio.gather(
            *(servers[n % 2].make(SERVICES, service(f"s{n}", type="NodePort")) for n in range(40))
        )
        assert len({service_["spec"]["clusterIP"] for service_ in created}) == 40
        assert len({service_["spec"]["ports"][0]["nodePort"] for service_ in created}) == 40
        await asyncio.gather(*(servers[(n + 1) % 2].ask("DELETE", f"{SERVICES}/s{n}") for n in range(40)))
        assert await addresses(servers[0]) == set() == await node_ports(servers[1])


async def test_two_servers_and_one_address() -> None:
    async with several(2) as servers:
        manifests = [service(f"s{n}", clusterIP="10.96.0.9") for n in range(6)]
        codes = [
            code
            for code, _ in await asyncio.gather(
                *(servers[n % 2].ask("POST", SERVICES, value) for n, value in enumerate(manifests))
            )
        ]
        assert sorted(codes) == [201, *[422] * 5]


# -- other rules -----------------------------------------------------------------------------------------------------


def test_the_endpoints_go_with_the_service() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(SERVICES, service())
        await server.make(f"{NAMESPACE}/endpoints", {"metadata": {"name": "a"}})
        await server.ask("DELETE", f"{SERVICES}/a")
        assert (await server.ask("GET", f"{NAMESPACE}/endpoints/a"))[0] == 404

    with_server(work)


def test_a_put_creates() -> None:
    async def work(server: ApiServer) -> None:
        code, created = await server.ask("PUT", f"{SERVICES}/a", service())
        assert code == 201
        assert await addresses(server) == {created["spec"]["clusterIP"]}

    with_server(work)


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

    with_server(work)
