"""After any sequence of writes by two servers, exactly the cluster IPs and node ports of the services are allocated."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.apiserver.registry.allocation import ServiceRanges
from tests.apiserver.registry.shared_store_servers import NAMESPACE, ApiServer, open_servers

SERVICES = f"{NAMESPACE}/services"
RANGES = ServiceRanges.parse("10.96.0.0/27,fd00::/123", (30000, 30011))
NAMES = st.sampled_from("abcd")

ports = st.lists(
    st.fixed_dictionaries(
        {"port": st.sampled_from([80, 81])},
        optional={
            "nodePort": st.sampled_from([0, 30000, 30001, 30002, 99]),
            "protocol": st.sampled_from(["TCP", "UDP"]),
            "name": st.sampled_from(["x", "y"]),
        },
    ),
    min_size=1,
    max_size=3,
)
addresses = st.sampled_from(["", "None", "10.96.0.3", "10.96.0.4", "fd00::3"])
specs = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
        "ports": ports,
        "clusterIP": addresses,
        "clusterIPs": st.none() | st.lists(addresses, max_size=2),
        "ipFamilyPolicy": st.sampled_from([None, "SingleStack", "PreferDualStack", "RequireDualStack"]),
        "ipFamilies": st.none() | st.lists(st.sampled_from(["IPv4", "IPv6"]), max_size=2, unique=True),
        "externalTrafficPolicy": st.sampled_from([None, "Local", "Cluster"]),
        "healthCheckNodePort": st.sampled_from([0, 30005]),
        "allocateLoadBalancerNodePorts": st.none() | st.booleans(),
        "externalName": st.just("x.y"),
        "selector": st.just({"a": "b"}),
        "sessionAffinity": st.sampled_from(["None", "Odd"]),
    },
)
steps = st.tuples(
    st.sampled_from(["POST", "POST", "PATCH", "PATCH", "PUT", "DELETE"]),
    st.integers(0, 1),
    NAMES,
    specs,
    st.sampled_from(["", "", "", "?dryRun=All"]),
)


@given(st.lists(steps, max_size=12))
@settings(max_examples=60)
def test_allocations_equal_cluster_ips_and_node_ports_of_services(
    requests: list[tuple[str, int, str, dict[str, Any], str]],
) -> None:
    async def work() -> None:
        async with open_servers(2, ranges=RANGES) as servers:
            for method, server, name, spec, query in requests:
                await _send(servers[server], method, name, spec, query)
                await _check_allocations(servers[1 - server])

    asyncio.run(work())


async def _send(server: ApiServer, method: str, name: str, spec: dict[str, Any], query: str) -> None:
    path = SERVICES if method == "POST" else f"{SERVICES}/{name}"
    value = None if method == "DELETE" else {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}
    code, response = await server.send(method, path + query, value)
    assert code in (200, 201, 404, 409, 422) or "failed to allocate" in response["message"], response


async def _check_allocations(server: ApiServer) -> None:
    _, services = await server.send("GET", SERVICES)
    _, listed = await server.send("GET", "/apis/networking.k8s.io/v1/ipaddresses")
    allocated = sorted((item["metadata"]["name"], item["spec"]["parentRef"]["name"]) for item in listed["items"])
    specs = [(item["metadata"]["name"], item["spec"]) for item in services["items"]]
    held = [(ip, name) for name, spec in specs for ip in spec.get("clusterIPs", ()) if ip != "None"]
    assert allocated == sorted(held)
    ports = [{port["nodePort"] for port in spec.get("ports", ()) if "nodePort" in port} for _, spec in specs]
    ports += [{spec["healthCheckNodePort"]} for _, spec in specs if "healthCheckNodePort" in spec]
    assert sum(map(len, ports)) == len(set().union(*ports))
    assert set(await server.services.node_ports.change(lambda bitmap: bitmap)) == set().union(*ports)
