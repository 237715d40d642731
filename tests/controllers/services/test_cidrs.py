"""service-cidr-controller."""

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Service
from sampan.api.types.networking_v1 import ServiceCIDR
from sampan.controllers.services.cidrs import FINALIZER, is_needed
from sampan.machinery import errors
from tests.controllers.cluster import Cluster, cluster

NAME = "service-cidr-controller"


def cidr(name: str, *cidrs: str) -> ServiceCIDR:
    return codec.from_value({"metadata": {"name": name}, "spec": {"cidrs": list(cidrs)}}, ServiceCIDR)


@pytest.mark.parametrize(
    ("others", "addresses", "needed"),
    [
        ([], [], False),
        ([], ["10.0.0.7"], True),
        ([], ["10.9.0.7", "fd00::1"], False),
        ([cidr("b", "10.0.0.0/16")], ["10.0.0.7"], False),
        ([cidr("b", "10.0.0.0/28")], ["10.0.0.7"], False),
        ([cidr("b", "10.0.0.0/28")], ["10.0.0.77"], True),
        ([cidr("b", "10.0.0.0/24")], ["10.0.0.77"], False),
    ],
)
def test_service_cidr_is_needed_by_addresses_in_no_other_cidr(
    others: list[ServiceCIDR], addresses: list[str], needed: bool
) -> None:
    assert is_needed(cidr("a", "10.0.0.0/24"), others, addresses) is needed


async def ready_condition(c: Cluster, name: str) -> tuple[str, str, str]:
    await c.clock.settle()
    (condition,) = (await c.client.for_kind(ServiceCIDR).get(name)).status.conditions
    return condition.status, condition.reason, condition.message


async def test_deleted_service_cidr_stays_until_its_addresses_are_released() -> None:
    async with cluster() as c:
        cidrs = c.client.for_kind(ServiceCIDR)
        async with c.running(NAME):
            assert await ready_condition(c, "kubernetes") == ("True", "", "Kubernetes Service CIDR is ready")
            assert (await cidrs.get("kubernetes")).metadata.finalizers == [FINALIZER]
            await cidrs.create(cidr("more", "10.77.0.0/24"))
            assert await ready_condition(c, "more") == ("True", "", "Kubernetes Service CIDR is ready")
            spec = {"ports": [{"port": 80}], "clusterIP": "10.77.0.9"}
            value = {"metadata": {"name": "s", "namespace": "default"}, "spec": spec}
            await c.client.for_kind(Service).create(codec.from_value(value, Service))
            await cidrs.delete("more")
            assert await ready_condition(c, "more") == (
                "False",
                "Terminating",
                "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new "
                "ServiceCIDR",
            )
            await c.clock.advance(60)
            await c.client.for_kind(Service).delete("s", "default")
            await c.clock.advance(1)
            with pytest.raises(errors.NotFound):
                await cidrs.get("more")
        before = await c.revision()
        async with c.running(NAME):
            await c.clock.advance(60)
        assert await c.revision() == before


async def test_deleted_service_cidr_within_another_is_removed_after_a_delay() -> None:
    async with cluster() as c, c.running(NAME):
        cidrs = c.client.for_kind(ServiceCIDR)
        await cidrs.create(cidr("outer", "10.77.0.0/16"))
        await cidrs.create(cidr("inner", "10.77.1.0/24"))
        await c.clock.settle()
        await cidrs.delete("inner")
        await c.clock.advance(8)
        assert (await cidrs.get("inner")).metadata.deletionTimestamp is not None
        await c.clock.advance(3)
        with pytest.raises(errors.NotFound):
            await cidrs.get("inner")
