"""endpointslice-mirroring-controller."""

from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Endpoints, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.services.endpointslice_mirror import is_mirrored, mirror_endpoints, plan
from sampan.machinery.client import PatchType, Selection
from tests.controllers.cluster import Cluster, check_second_run_writes_nothing, cluster
from tests.controllers.nodes.fleet import Fleet

NAME = "endpointslice-mirroring-controller"


def endpoints(*subsets: dict[str, Any], **meta: Any) -> Endpoints:
    value = {"metadata": {"name": "web", "namespace": "default", "uid": "u", **meta}, "subsets": list(subsets)}
    return codec.from_value(value, Endpoints)


def subset(*ips: str, port: int = 80, unready: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "addresses": [{"ip": ip} for ip in ips],
        "notReadyAddresses": [{"ip": ip} for ip in unready],
        "ports": [{"port": port, "protocol": "TCP"}],
    }


def test_endpoints_that_are_mirrored() -> None:
    assert is_mirrored(endpoints())
    assert not is_mirrored(endpoints(labels={"endpointslice.kubernetes.io/skip-mirror": "true"}))
    assert not is_mirrored(endpoints(annotations={"control-plane.alpha.kubernetes.io/leader": "{}"}))
    assert not is_mirrored(None)


def test_slices_are_split_by_address_family_and_ports() -> None:
    new_mirrored = mirror_endpoints(
        endpoints(subset("10.0.0.1", "fd00::1", unready=("10.0.0.2",)), subset("10.0.0.3", port=81)), 1000
    )
    shape = {(family, ports[0][1]): len(endpoints) for (family, ports), endpoints in new_mirrored.endpoints.items()}
    assert shape == {("IPv4", 80): 2, ("IPv6", 80): 1, ("IPv4", 81): 1}


def test_address_in_two_subsets_has_the_ports_of_both() -> None:
    new_mirrored = mirror_endpoints(endpoints(subset("10.0.0.1"), subset("10.0.0.1", port=81)), 1000)
    assert [[port[1] for port in key[1]] for key in new_mirrored.endpoints] == [[80, 81]]


def test_addresses_over_the_limit_and_invalid_addresses_are_counted() -> None:
    new_mirrored = mirror_endpoints(
        endpoints(subset("10.0.0.1", "10.0.0.2", "10.0.0.3", "nonsense", unready=("10.0.0.4",))), 2
    )
    assert (sum(map(len, new_mirrored.endpoints.values())), new_mirrored.skipped, new_mirrored.invalid) == (2, 3, 0)
    assert mirror_endpoints(endpoints(subset("nonsense")), 2).invalid == 1


def test_existing_slices_are_reused() -> None:
    source = endpoints(subset("10.0.0.1"))
    (first,) = plan(source, [], mirror_endpoints(source, 9)).write
    first.metadata.name = "web-x"
    assert plan(source, [first], mirror_endpoints(source, 9)).write == []
    moved = endpoints(subset("10.0.0.1", port=81))
    new_plan = plan(moved, [first], mirror_endpoints(moved, 9))
    assert ([endpoint_slice.metadata.name for endpoint_slice in new_plan.write], new_plan.delete) == (["web-x"], [])
    empty = plan(endpoints(), [first], mirror_endpoints(endpoints(), 9))
    assert (empty.write, empty.delete) == ([], [first])


async def slices(c: Cluster) -> list[EndpointSlice]:
    await c.clock.settle()
    chosen = Selection(namespace="default", labels="kubernetes.io/service-name=web")
    return list((await c.client.for_kind(EndpointSlice).list(chosen)).items)


async def make_service(c: Cluster, **spec: Any) -> None:
    value = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"ports": [{"port": 80}], **spec}}
    await c.client.for_kind(Service).create(codec.from_value(value, Service))


async def test_slices_follow_endpoints() -> None:
    async with cluster() as c:
        client = c.client.for_kind(Endpoints)
        async with c.running(NAME):
            source = endpoints(subset("10.0.0.1"), labels={"team": "a"}, annotations={"note": "x"})
            source.metadata.uid = ""
            created_endpoints = await client.create(source)
            assert await slices(c) == [], "without a service nothing is mirrored"
            await make_service(c)
            (endpoint_slice,) = await slices(c)
            meta = endpoint_slice.metadata
            assert meta.generateName == "web-"
            assert meta.labels == {
                "team": "a",
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
            }
            assert meta.annotations == {"note": "x"}
            assert [(reference.kind, reference.uid) for reference in meta.ownerReferences] == [
                ("Endpoints", created_endpoints.metadata.uid)
            ]
            assert [(endpoint.addresses, endpoint.conditions.ready) for endpoint in endpoint_slice.endpoints or ()] == [
                (["10.0.0.1"], True)
            ]
            patch = {"subsets": [subset("10.0.0.1", unready=("10.0.0.2",))]}
            await client.patch("web", patch, "default", type=PatchType.MERGE)
            (endpoint_slice,) = await slices(c)
            assert {
                (endpoint.addresses or [""])[0]: endpoint.conditions.ready
                for endpoint in endpoint_slice.endpoints or ()
            } == {
                "10.0.0.1": True,
                "10.0.0.2": False,
            }
            await c.client.for_kind(EndpointSlice).delete(endpoint_slice.metadata.name, "default")
            assert len(await slices(c)) == 1, "a deleted slice is recreated"
        await check_second_run_writes_nothing(c, NAME)
        async with c.running(NAME):
            await client.delete("web", "default")
            assert await slices(c) == []


async def test_selector_on_the_service_stops_mirroring() -> None:
    async with cluster() as c, c.running(NAME):
        await make_service(c)
        source = endpoints(subset("10.0.0.1"))
        source.metadata.uid = ""
        await c.client.for_kind(Endpoints).create(source)
        assert len(await slices(c)) == 1
        await c.client.for_kind(Service).patch("web", {"spec": {"selector": {"app": "web"}}}, "default")
        assert await slices(c) == []


async def test_endpoints_beyond_the_limit_are_reported() -> None:
    config = ControllerConfig(mirroring_max_endpoints_per_subset=2)
    async with cluster() as c, c.running(NAME, config=config):
        await make_service(c)
        source = endpoints(subset("10.0.0.1", "10.0.0.2", "10.0.0.3"))
        source.metadata.uid = ""
        await c.client.for_kind(Endpoints).create(source)
        (endpoint_slice,) = await slices(c)
        assert len(endpoint_slice.endpoints or ()) == 2
        assert (await Fleet(c).events("TooManyAddressesToMirror"))[0][2] == (
            "A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 1 addresses were skipped"
        )
