"""endpointslice-controller."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Node, Pod, Service
from sampan.api.types.discovery_v1 import Endpoint, EndpointPort, EndpointSlice
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.services.slice_content import (
    PortGroup,
    SliceChanges,
    desired_endpoints,
    identity,
    pack,
    ports_key,
)
from sampan.machinery.client import DeleteParameters, PatchType
from tests.controllers.cluster import check_second_run_writes_nothing, cluster
from tests.controllers.nodes.fleet import node_value
from tests.controllers.services.backends import Backends, pod, service

NAME = "endpointslice-controller"
NODE = codec.from_value(node_value("n", zone="z1"), Node)


def only_endpoint(service: Service, pod: Pod, family: str = "IPv4") -> Endpoint | None:
    desired = desired_endpoints(service, [pod], family, lambda name: NODE if name == "n" else None)
    listed = [endpoint for group in desired.groups.values() for endpoint in group.endpoints.values()]
    return listed[0] if listed else None


@pytest.mark.parametrize(
    ("pod_fields", "publishes", "conditions"),
    [
        ({}, False, (True, True, False)),
        ({"ready": False}, False, (False, False, False)),
        ({"ready": False}, True, (True, False, False)),
        ({"is_deleted": True}, False, (False, True, True)),
        ({"is_deleted": True}, True, (True, True, True)),
        ({"is_deleted": True, "ready": False}, False, (False, False, True)),
        ({"phase": "Succeeded"}, False, None),
        ({"phase": "Failed"}, True, None),
    ],
)
def test_endpoint_conditions_by_pod_state(
    pod_fields: dict[str, Any], publishes: bool, conditions: tuple[bool, ...] | None
) -> None:
    endpoint = only_endpoint(service(publishNotReadyAddresses=publishes), pod("a", "10.1.0.1", **pod_fields))
    endpoint_conditions = endpoint.conditions if endpoint is not None else None
    assert (
        endpoint_conditions
        and (endpoint_conditions.ready, endpoint_conditions.serving, endpoint_conditions.terminating)
    ) == conditions


def test_endpoint_fields_by_address_family() -> None:
    endpoint = only_endpoint(service(), pod("a", "10.1.0.1", "fd00::0:1", hostname="h", subdomain="web"))
    assert endpoint is not None
    assert (endpoint.addresses, endpoint.hostname, endpoint.nodeName, endpoint.zone) == (["10.1.0.1"], "h", "n", "z1")
    assert endpoint.targetRef is not None
    assert (endpoint.targetRef.kind, endpoint.targetRef.name, endpoint.targetRef.uid) == ("Pod", "a", "uid-a")
    assert endpoint.hints is None
    ipv6_endpoint = only_endpoint(service(), pod("a", "10.1.0.1", "fd00::0:1", hostname="h", subdomain="other"), "IPv6")
    assert ipv6_endpoint is not None
    assert (ipv6_endpoint.addresses, ipv6_endpoint.hostname) == (["fd00::1"], None)
    assert only_endpoint(service(), pod("a")) is None
    assert only_endpoint(service(), pod("a", "10.1.0.1"), "IPv6") is None


@pytest.mark.parametrize(
    ("distribution", "hints"),
    [
        (None, None),
        ("PreferClose", {"forZones": [{"name": "z1"}]}),
        ("PreferSameZone", {"forZones": [{"name": "z1"}]}),
        ("PreferSameNode", {"forZones": [{"name": "z1"}], "forNodes": [{"name": "n"}]}),
    ],
)
def test_topology_hints_by_traffic_distribution(distribution: str | None, hints: dict[str, Any] | None) -> None:
    endpoint = only_endpoint(service(trafficDistribution=distribution), pod("a", "10.1.0.1"))
    assert endpoint is not None
    assert (codec.to_value(endpoint.hints) if endpoint.hints else None) == hints


def test_pods_on_unknown_nodes_are_not_listed() -> None:
    unknown_node_pod = pod("a", "10.1.0.1", nodeName="elsewhere")
    assert only_endpoint(service(), unknown_node_pod) is None
    published = only_endpoint(service(publishNotReadyAddresses=True), unknown_node_pod)
    assert published is not None
    assert published.zone is None
    desired = desired_endpoints(service(), [unknown_node_pod], "IPv4", lambda name: None)
    assert desired.missing_nodes == {"elsewhere"}


def test_named_ports_differ_by_pod() -> None:
    service_ = service(ports=[{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}])
    pods = [
        pod("a", "10.1.0.1", ports=[{"name": "web", "containerPort": 8080, "protocol": "TCP"}]),
        pod("b", "10.1.0.2", ports=[{"name": "web", "containerPort": 9090, "protocol": "TCP"}]),
        pod("c", "10.1.0.3", ports=[{"name": "web", "containerPort": 9090, "protocol": "UDP"}]),
    ]
    desired = desired_endpoints(service_, pods, "IPv4", lambda name: NODE)
    assert {key: len(group.endpoints) for key, group in desired.groups.items()} == {
        (("http", 8080, "TCP", ""),): 1,
        (("http", 9090, "TCP", ""),): 1,
        (): 1,
    }


PORTS = [EndpointPort(name="http", port=80, protocol="TCP")]


def endpoint(index: int, *, zone: str = "") -> Endpoint:
    return Endpoint(addresses=[f"10.{index >> 8}.{index & 255}.1"], zone=zone or None)


def group(*indexes: int, zone: str = "") -> dict[Any, PortGroup]:
    endpoints = [endpoint(index, zone=zone) for index in indexes]
    return (
        {ports_key(PORTS): PortGroup(PORTS, {identity(endpoint_): endpoint_ for endpoint_ in endpoints})}
        if endpoints
        else {}
    )


def existing_slices(*slices: list[int], ports: list[EndpointPort] = PORTS) -> list[EndpointSlice]:
    return [
        codec.from_value(
            {
                "metadata": {"name": f"s{at}"},
                "addressType": "IPv4",
                "endpoints": [codec.to_value(endpoint(index)) for index in indexes],
                "ports": [codec.to_value(port) for port in ports],
            },
            EndpointSlice,
        )
        for at, indexes in enumerate(slices)
    ]


def shape(packing: SliceChanges) -> tuple[int, list[int], list[int], int]:
    changed = [len(slice_.endpoints) for slice_ in packing.changed]
    return len(packing.same), changed, [len(slice_.endpoints) for slice_ in packing.new], len(packing.unneeded)


@pytest.mark.parametrize(
    ("before", "expected", "result"),
    [
        ([], [], (0, [], [0], 0)),
        ([], [1, 2, 3], (0, [], [3], 0)),
        ([], range(9), (0, [], [4, 4, 1], 0)),
        ([[1, 2]], [1, 2], (1, [], [], 0)),
        ([[1, 2]], [1, 2, 3], (0, [3], [], 0)),
        ([[1, 2]], [1], (0, [1], [], 0)),
        ([[1, 2], [3]], [1, 2, 3, 4], (1, [3], [], 0)),
        ([[1, 2, 3], [4]], [1, 2, 3, 4, 5, 6], (1, [3], [], 0)),
        ([[1, 2, 3, 4], [5, 6, 7, 8]], range(1, 10), (2, [], [1], 0)),
        ([[1, 2, 3, 4], [5, 6]], [1, 2, 5, 6, 9], (1, [3], [], 0)),
        ([[1, 2], [3, 4]], [1, 2], (1, [], [], 1)),
        ([[1, 2]], [], (0, [0], [], 0)),
        ([[1], [2]], [], (0, [0], [], 1)),
    ],
)
def test_packing_changes_as_few_slices_as_possible(
    before: list[list[int]], expected: list[int], result: tuple[Any, ...]
) -> None:
    assert shape(pack(existing_slices(*before), group(*expected), 4)) == result


def test_slice_is_reused_when_its_ports_change() -> None:
    old = existing_slices([1, 2], ports=[EndpointPort(name="http", port=81, protocol="TCP")])
    packing = pack(old, group(1, 2), 4)
    assert shape(packing) == (0, [2], [], 0)
    assert packing.changed[0].ports == PORTS


@settings(max_examples=200)
@given(
    st.lists(st.lists(st.integers(0, 30), max_size=6, unique=True), max_size=5),
    st.sets(st.integers(0, 30)),
    st.sets(st.integers(0, 30)),
)
def test_every_endpoint_is_in_one_slice_and_no_slice_is_too_large(
    before: list[list[int]], expected: set[int], moved: set[int]
) -> None:
    groups = group(*sorted(expected - moved)) | {}
    for item in sorted(expected & moved):
        endpoint_ = endpoint(item, zone="z")
        groups.setdefault(ports_key(PORTS), PortGroup(PORTS)).endpoints[identity(endpoint_)] = endpoint_
    packed = pack(existing_slices(*before), groups, 4)
    contents = [item.endpoints or [] for item in packed.same]
    contents += [item.endpoints for item in (*packed.changed, *packed.new)]
    identities = [identity(item) for content in contents for item in content]
    assert sorted(identities) == sorted(identity(endpoint(index)) for index in expected)
    assert contents, "there is always a slice"
    assert all(
        len(content.endpoints) <= max(4, len(content.existing.endpoints or ()) if content.existing else 0)
        for content in packed.changed
    )
    assert all(len(item.endpoints) <= 4 for item in packed.new)
    repacked = [
        codec.from_value(
            {
                "metadata": {"name": f"s{at}"},
                "addressType": "IPv4",
                "ports": [codec.to_value(port) for port in PORTS] if content else [],
                "endpoints": [codec.to_value(item) for item in content],
            },
            EndpointSlice,
        )
        for at, content in enumerate(contents)
    ]
    assert shape(pack(repacked, groups, 4))[1:] == ([], [], 0), "the second time nothing changes"


async def test_slices_follow_pods() -> None:
    async with cluster() as c:
        backends = Backends(c)
        await backends.account()
        await backends.add("n", zone="z1")
        async with c.running(NAME):
            service = await backends.serve()
            (empty,) = await backends.slices()
            assert (empty.endpoints or [], empty.ports or []) == ([], [])
            await backends.start("a")
            await backends.start("b", ready=False)
            await backends.start("other", labels={"app": "db"})
            assert await backends.list_conditions() == {"a": (True, True, False), "b": (False, False, False)}
            (slice_,) = await backends.slices()
            meta = slice_.metadata
            assert meta.name == empty.metadata.name, "the empty slice is reused"
            assert meta.name.startswith("web-")
            assert meta.labels == {
                "team": "a",
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            }
            assert [(item.kind, item.name, item.uid, item.controller) for item in meta.ownerReferences] == [
                ("Service", "web", service.metadata.uid, True)
            ]
            assert slice_.addressType == "IPv4"
            assert [(item.name, item.port, item.protocol) for item in slice_.ports or ()] == [("http", 8080, "TCP")]
            assert {item.zone for item in slice_.endpoints or ()} == {"z1"}
            await c.clock.advance(7)
            await backends.set_ready("b", True)
            assert await backends.list_conditions() == {"a": (True, True, False), "b": (True, True, False)}
            (slice_,) = await backends.slices()
            assert slice_.metadata.annotations == {
                "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:07Z"
            }
            await c.client.for_kind(Pod).delete("a", "default")
            assert (await backends.list_conditions())["a"] == (False, True, True)
            await c.client.for_kind(Pod).delete("a", "default", options=DeleteParameters(grace_period_s=0))
            assert list(await backends.list_conditions()) == ["b"]
            await c.client.for_kind(Pod).patch("b", {"metadata": {"labels": {"app": "db"}}}, "default")
            assert await backends.list_conditions() == {}
            await c.client.for_kind(Pod).patch("b", {"metadata": {"labels": {"app": "web"}}}, "default")
            assert list(await backends.list_conditions()) == ["b"]
            await c.client.for_kind(Service).patch("web", {"spec": {"selector": {"app": "db"}}}, "default")
            assert list(await backends.list_conditions()) == ["other"]
            await c.client.for_kind(Service).patch("web", {"metadata": {"labels": {"team": "b"}}}, "default")
            (slice_,) = await backends.slices()
            assert slice_.metadata.labels["team"] == "b"
            await c.client.for_kind(EndpointSlice).delete(slice_.metadata.name, "default")
            assert list(await backends.list_conditions()) == ["other"], "a deleted slice is recreated"
        await check_second_run_writes_nothing(c, NAME)


async def test_35_pods_fill_four_slices_and_a_deletion_changes_one() -> None:
    async with cluster() as c:
        backends = Backends(c)
        await backends.account()
        await backends.add("n")
        async with c.running(NAME, config=ControllerConfig(max_endpoints_per_slice=10)):
            await backends.serve()
            for index in range(35):
                await backends.start(f"p{index}")
            sizes = sorted(len(slice_.endpoints or ()) for slice_ in await backends.slices())
            assert sum(sizes) == 35
            assert len(sizes) == 4
            before = {slice_.metadata.name: slice_.metadata.resourceVersion for slice_ in await backends.slices()}
            await c.client.for_kind(Pod).delete("p3", "default", options=DeleteParameters(grace_period_s=0))
            after = {slice_.metadata.name: slice_.metadata.resourceVersion for slice_ in await backends.slices()}
            assert len(set(before.items()) - set(after.items())) == 1, "one slice changes"
            await backends.set_ready("p4", False)
            assert len(await backends.list_conditions()) == 34


async def test_services_without_selector_or_with_external_name_have_no_slices() -> None:
    async with cluster() as c, c.running(NAME):
        backends = Backends(c)
        await backends.serve("bare", selector={})
        await backends.serve("name", type="ExternalName", externalName="example.com")
        assert await backends.slices("bare") == await backends.slices("name") == []


async def test_headless_endpoint_is_listed_once_its_node_exists() -> None:
    async with cluster() as c, c.running(NAME):
        backends = Backends(c)
        await backends.account()
        await backends.serve(clusterIP="None", ports=[])
        await backends.start("a", node="late", hostname="a", subdomain="web")
        assert await backends.list_conditions() == {}
        await backends.add("late", zone="z")
        (slice_,) = await backends.slices()
        assert [(endpoint.hostname, endpoint.zone) for endpoint in slice_.endpoints or ()] == [("a", "z")]
        assert slice_.metadata.labels["service.kubernetes.io/headless"] == ""
        assert not slice_.ports


async def test_batch_period_delays_and_merges_updates() -> None:
    async with cluster() as c:
        backends = Backends(c)
        await backends.account()
        await backends.add("n")
        async with c.running(NAME, config=ControllerConfig(endpointslice_updates_batch_period_s=5)):
            await backends.serve()
            for name in ("a", "b"):
                await backends.start(name)
                assert await backends.list_conditions() == {}
                await c.clock.advance(1)
            await c.clock.advance(4)
            assert sorted(await backends.list_conditions()) == ["a", "b"]


async def test_manual_change_of_a_slice_is_reverted() -> None:
    async with cluster() as c, c.running(NAME):
        backends = Backends(c)
        await backends.account()
        await backends.add("n")
        await backends.serve()
        await backends.start("a")
        (slice_,) = await backends.slices()
        slices = c.client.for_kind(EndpointSlice)
        await slices.patch(slice_.metadata.name, {"endpoints": []}, "default", type=PatchType.MERGE)
        assert list(await backends.list_conditions()) == ["a"]
