"""endpoints-controller."""

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import EndpointAddress, Endpoints, EndpointSubset, Pod, Service
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.services.endpoints import build_endpoints
from sampan.controllers.services.subsets import subsets_of, truncate_subsets
from sampan.machinery import errors
from sampan.machinery.client import DeleteParameters
from tests.controllers.cluster import check_second_run_writes_nothing, cluster
from tests.controllers.services.backends import Backends, pod, service

NAME = "endpoints-controller"


def test_pods_with_equal_ports_share_a_sorted_subset() -> None:
    service_ = service(ports=[{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}])
    first, other = ([{"name": "web", "containerPort": port, "protocol": "TCP"}] for port in (8080, 9090))
    pods = [
        pod("c", "10.1.0.3", ports=first),
        pod("a", "10.1.0.1", ports=first),
        pod("b", "10.1.0.2", ports=first, ready=False),
        pod("d", "10.1.0.4", ports=other),
        pod("none", "10.1.0.5"),
        pod("gone", "10.1.0.6", ports=first, is_deleted=True),
    ]
    subsets = [
        (
            [address.ip for address in subset.addresses],
            [address.ip for address in subset.notReadyAddresses],
            [port.port for port in subset.ports],
        )
        for subset in subsets_of(service_, pods)
    ]
    assert subsets == [(["10.1.0.1", "10.1.0.3"], ["10.1.0.2"], [8080]), (["10.1.0.4"], [], [9090])]


def test_publish_not_ready_addresses() -> None:
    pods = [pod("a", "10.1.0.1", ready=False), pod("b", "10.1.0.2", is_deleted=True)]
    (subset,) = subsets_of(service(publishNotReadyAddresses=True), pods)
    assert [address.ip for address in subset.addresses] == ["10.1.0.1", "10.1.0.2"]


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([(600, 400)], None),
        ([(600, 500)], [(600, 400)]),
        ([(1200, 300)], [(1000, 0)]),
        ([(600, 0), (600, 10)], [(500, 0), (500, 0)]),
        ([(500, 300), (400, 100)], [(500, 75), (400, 25)]),
    ],
)
def test_subsets_are_truncated_to_1000_addresses(
    sizes: list[tuple[int, int]], kept: list[tuple[int, int]] | None
) -> None:
    def addresses(count: int) -> list[EndpointAddress]:
        return [EndpointAddress(ip=f"10.0.{index >> 8}.{index & 255}") for index in range(count)]

    subsets = [EndpointSubset(addresses=addresses(a), notReadyAddresses=addresses(b)) for a, b in sizes]
    truncated_subsets = truncate_subsets(subsets)
    counts = (
        [(len(subset.addresses), len(subset.notReadyAddresses)) for subset in truncated_subsets]
        if truncated_subsets is not None
        else None
    )
    assert counts == kept


def test_endpoints_over_capacity_are_truncated_and_annotated() -> None:
    pods = [pod(f"p{index}", f"10.1.{index >> 8}.{index & 255}") for index in range(1001)]
    endpoints = build_endpoints(service(), pods, None, "")
    assert endpoints is not None
    assert endpoints.metadata.annotations == {"endpoints.kubernetes.io/over-capacity": "truncated"}
    assert len(endpoints.subsets[0].addresses) == 1000
    assert build_endpoints(service(), pods, endpoints, "") is None
    fewer = build_endpoints(service(), pods[:3], endpoints, "2026-01-01T00:00:00Z")
    assert fewer is not None
    assert fewer.metadata.annotations == {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"}


async def test_endpoints_follow_pods_and_services() -> None:
    async with cluster() as c:
        backends = Backends(c)
        endpoints = c.client.for_kind(Endpoints)

        async def ips() -> tuple[list[str], list[str]]:
            await c.clock.settle()
            subsets = (await endpoints.get("web", "default")).subsets
            return (
                [entry.ip for subset in subsets for entry in subset.addresses],
                [entry.ip for subset in subsets for entry in subset.notReadyAddresses],
            )

        await backends.account()
        await backends.add("n")
        async with c.running(NAME):
            await backends.serve()
            assert await ips() == ([], [])
            await backends.start("a")
            await backends.start("b", ready=False)
            assert await ips() == (["10.244.0.2"], ["10.244.0.3"])
            stored = await endpoints.get("web", "default")
            assert stored.metadata.labels == {
                "team": "a",
                "endpoints.kubernetes.io/managed-by": "endpoint-controller",
            }
            address = stored.subsets[0].addresses[0]
            assert (address.nodeName, address.targetRef and address.targetRef.name) == ("n", "a")
            assert [(entry.name, entry.port, entry.protocol) for entry in stored.subsets[0].ports] == [
                ("http", 8080, "TCP")
            ]
            await c.clock.advance(7)
            await backends.set_ready("b", True)
            assert await ips() == (["10.244.0.2", "10.244.0.3"], [])
            stored = await endpoints.get("web", "default")
            assert stored.metadata.annotations == {
                "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:07Z"
            }
            await c.client.for_kind(Pod).delete("a", "default", options=DeleteParameters(grace_period_s=0))
            assert await ips() == (["10.244.0.3"], [])
            await endpoints.delete("web", "default")
            assert await ips() == (["10.244.0.3"], []), "deleted Endpoints are recreated"
            ports = [{"name": "http", "port": 80, "targetPort": 9090}]
            await c.client.for_kind(Service).patch("web", {"spec": {"ports": ports}}, "default")
            await c.clock.settle()
            assert (await endpoints.get("web", "default")).subsets[0].ports[0].port == 9090
        await check_second_run_writes_nothing(c, NAME)
        async with c.running(NAME):
            await c.client.for_kind(Service).delete("web", "default")
            await c.clock.settle()
            with pytest.raises(errors.NotFound):
                await endpoints.get("web", "default")


async def test_orphaned_endpoints_are_deleted_at_start_and_manual_endpoints_kept() -> None:
    async with cluster() as c:
        endpoints = c.client.for_kind(Endpoints)

        def manual_endpoints(name: str, **annotations: str) -> Endpoints:
            value = {"metadata": {"name": name, "namespace": "default", "annotations": annotations}}
            value["subsets"] = [{"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 80}]}]  # type: ignore[assignment]
            return codec.from_value(value, Endpoints)

        await endpoints.create(manual_endpoints("left-over"))
        await endpoints.create(manual_endpoints("lock", **{"control-plane.alpha.kubernetes.io/leader": "{}"}))
        async with c.running(NAME):
            names = {item.metadata.name for item in (await endpoints.list()).items}
            assert names == {"kubernetes", "lock"}
            await endpoints.create(manual_endpoints("mine"))
            await c.client.for_kind(Service).create(
                codec.from_value(
                    {"metadata": {"name": "bare", "namespace": "default"}, "spec": {"ports": [{"port": 80}]}},
                    Service,
                )
            )
            await endpoints.create(manual_endpoints("bare"))
            await c.clock.advance(60)
            names = {item.metadata.name for item in (await endpoints.list()).items}
            assert names == {"kubernetes", "lock", "mine", "bare"}


def test_endpoints_of_a_headless_service_without_ports() -> None:
    endpoints = build_endpoints(service(clusterIP="None", ports=[]), [pod("a", "10.1.0.1")], None, "")
    assert endpoints is not None
    assert endpoints.metadata == ObjectMeta(
        name="web",
        namespace="default",
        labels={"service.kubernetes.io/headless": "", "endpoints.kubernetes.io/managed-by": "endpoint-controller"},
    )
    assert [(len(subset.addresses), subset.ports) for subset in endpoints.subsets] == [(1, [])]
