"""Claims come from templates, are reserved, given free and removed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Event, Pod
from sampan.api.types.resource_v1 import ResourceClaim, ResourceClaimTemplate
from sampan.machinery import errors
from sampan.machinery.client import Delete
from tests.controllers.cluster import names_of, second_run_writes_nothing
from tests.controllers.devices.resource_claims import Stage, claim, claiming, template
from tests.controllers.ownership.pod_cluster import pod_cluster

CONTROLLER = "resourceclaim-controller"
NOW = Delete(grace_period_s=0)


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    async with pod_cluster() as c, c.running(CONTROLLER):
        yield Stage(c)


async def test_a_claim_is_created_and_named_in_the_pod_status() -> None:
    async with pod_cluster() as c:
        async with c.running(CONTROLLER):
            await c.client.of(ResourceClaimTemplate).create(template())
            pod = await c.client.of(Pod).create(claiming())
            await c.clock.advance(1)
            (claim,) = (await c.client.of(ResourceClaim).list()).items
            assert claim.metadata.name.startswith("p-gpu-")
            assert claim.metadata.ownerReferences[0].uid == pod.metadata.uid
            (claim_status,) = (await c.client.of(Pod).get("p", "default")).status.resourceClaimStatuses
            assert (claim_status.name, claim_status.resourceClaimName) == ("gpu", claim.metadata.name)
        await second_run_writes_nothing(c, CONTROLLER)


async def test_a_claim_that_somebody_deletes_is_made_again() -> None:
    async with stage() as s:
        await s.cluster.client.of(ResourceClaimTemplate).create(template())
        await s.pods.create(claiming())
        await s.settle()
        (first,) = names_of((await s.claims.list()).items)
        await s.claims.delete(first, "default")
        await s.settle()
        (second,) = names_of((await s.claims.list()).items)
        assert second != first
        (claim_status,) = (await s.pods.get("p", "default")).status.resourceClaimStatuses
        assert claim_status.resourceClaimName == second


async def test_a_template_that_comes_late() -> None:
    async with stage() as s:
        await s.pods.create(claiming())
        await s.settle()
        events = (await s.cluster.client.of(Event).list()).items
        assert {(event.reason, event.source.component) for event in events} == {
            ("FailedResourceClaimCreation", "resource_claim")
        }
        why = 'resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'
        assert events[0].message == f"PodResourceClaim gpu: {why}"
        await s.cluster.client.of(ResourceClaimTemplate).create(template())
        await s.settle()
        assert len((await s.claims.list()).items) == 1


async def test_the_last_pod_gives_a_claim_free() -> None:
    async with stage() as s:
        await s.claims.create(claim())
        first = await s.pods.create(claiming("one", claim="c", node="n"))
        second = await s.pods.create(claiming("two", claim="c", node="n"))
        await s.allocate("c", first, second)
        assert len((await s.get("c")).status.reservedFor) == 2
        await s.finish("one")
        left = await s.get("c")
        assert [consumer.name for consumer in left.status.reservedFor] == ["two"]
        assert left.status.allocation is not None
        await s.pods.delete("two", "default", options=NOW)
        await s.settle()
        free = await s.get("c")
        assert (free.status.reservedFor, free.status.allocation, free.metadata.finalizers) == ([], None, [])


async def test_a_pod_that_was_put_on_a_node_is_reserved_for() -> None:
    async with stage() as s:
        await s.claims.create(claim())
        other = await s.pods.create(claiming("other", claim="c", node="n"))
        await s.allocate("c", other)
        pod = await s.pods.create(claiming("p", claim="c", node="n"))
        await s.settle()
        consumers = (await s.get("c")).status.reservedFor
        assert [consumer.uid for consumer in consumers] == [other.metadata.uid, pod.metadata.uid]


async def test_the_claim_of_a_pod_that_is_done_goes() -> None:
    async with stage() as s:
        await s.cluster.client.of(ResourceClaimTemplate).create(template())
        pod = await s.pods.create(claiming(node="n"))
        await s.settle()
        (name,) = names_of((await s.claims.list()).items)
        await s.allocate(name, pod)
        await s.finish("p")
        assert (await s.claims.list()).items == []


async def test_a_reservation_for_a_pod_that_nobody_knows_is_taken_back() -> None:
    async with pod_cluster() as c:
        s = Stage(c)
        await s.claims.create(claim())
        stranger = codec.from_value({"metadata": {"name": "gone", "uid": "x"}}, Pod)
        await s.allocate("c", stranger)
        async with c.running(CONTROLLER):
            await s.settle()
            assert (await s.get("c")).status.reservedFor == []


async def test_a_deleted_claim_goes_when_it_is_free() -> None:
    async with stage() as s:
        await s.claims.create(claim())
        pod = await s.pods.create(claiming(claim="c", node="n"))
        await s.allocate("c", pod)
        await s.claims.delete("c", "default")
        await s.settle()
        assert (await s.get("c")).metadata.deletionTimestamp is not None
        await s.pods.delete("p", "default", options=NOW)
        await s.settle()
        try:
            await s.get("c")
        except errors.NotFound:
            return
        raise AssertionError("it is still there")
