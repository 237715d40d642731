"""Resource claims are created from templates, reserved for pods, deallocated and deleted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Event, Pod, PodResourceClaim
from sampan.api.types.resource_v1 import ResourceClaim, ResourceClaimTemplate
from sampan.machinery import errors
from sampan.machinery.client import DeleteParameters
from tests.controllers.cluster import check_second_run_writes_nothing, names_of
from tests.controllers.devices.resource_claims import ClaimCluster, claim, pod_with_claim, template
from tests.controllers.ownership.pod_cluster import pod_cluster

CONTROLLER = "resourceclaim-controller"
NOW = DeleteParameters(grace_period_s=0)


@asynccontextmanager
async def claim_cluster() -> AsyncIterator[ClaimCluster]:
    async with pod_cluster() as c, c.running(CONTROLLER):
        yield ClaimCluster(c)


async def test_a_claim_is_created_and_named_in_the_pod_status() -> None:
    async with pod_cluster() as c:
        async with c.running(CONTROLLER):
            await c.client.for_kind(ResourceClaimTemplate).create(template())
            pod = await c.client.for_kind(Pod).create(pod_with_claim())
            await c.clock.advance(1)
            (claim,) = (await c.client.for_kind(ResourceClaim).list()).items
            assert claim.metadata.name.startswith("p-gpu-")
            assert claim.metadata.ownerReferences[0].uid == pod.metadata.uid
            (claim_status,) = (await c.client.for_kind(Pod).get("p", "default")).status.resourceClaimStatuses
            assert (claim_status.name, claim_status.resourceClaimName) == ("gpu", claim.metadata.name)
        await check_second_run_writes_nothing(c, CONTROLLER)


async def test_deleted_claim_of_a_pod_is_recreated() -> None:
    async with claim_cluster() as s:
        await s.cluster.client.for_kind(ResourceClaimTemplate).create(template())
        await s.pods.create(pod_with_claim())
        await s.settle()
        (first,) = names_of((await s.claims.list()).items)
        await s.claims.delete(first, "default")
        await s.settle()
        (second,) = names_of((await s.claims.list()).items)
        assert second != first
        (claim_status,) = (await s.pods.get("p", "default")).status.resourceClaimStatuses
        assert claim_status.resourceClaimName == second


async def test_claim_statuses_are_merged_and_sorted() -> None:
    async with claim_cluster() as s:
        await s.cluster.client.for_kind(ResourceClaimTemplate).create(template())
        pod = pod_with_claim()
        pod.spec.resourceClaims = [
            PodResourceClaim(name=name, resourceClaimTemplateName="t") for name in ("gpu", "disk", "audio")
        ]
        await s.pods.create(pod)
        await s.settle()
        statuses = (await s.pods.get("p", "default")).status.resourceClaimStatuses
        assert [status.name for status in statuses] == ["audio", "disk", "gpu"]
        await s.claims.delete(statuses[1].resourceClaimName or "", "default")
        await s.settle()
        after = (await s.pods.get("p", "default")).status.resourceClaimStatuses
        assert [status.name for status in after] == ["audio", "disk", "gpu"]
        assert (after[0], after[2]) == (statuses[0], statuses[2])


async def test_claim_is_created_once_the_missing_template_exists() -> None:
    async with claim_cluster() as s:
        await s.pods.create(pod_with_claim())
        await s.settle()
        events = (await s.cluster.client.for_kind(Event).list()).items
        assert {(event.reason, event.source.component) for event in events} == {
            ("FailedResourceClaimCreation", "resource_claim")
        }
        error = 'resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'
        assert events[0].message == f"PodResourceClaim gpu: {error}"
        await s.cluster.client.for_kind(ResourceClaimTemplate).create(template())
        await s.settle()
        assert len((await s.claims.list()).items) == 1


async def test_claim_is_deallocated_when_its_last_consumer_is_gone() -> None:
    async with claim_cluster() as s:
        await s.claims.create(claim())
        first = await s.pods.create(pod_with_claim("one", claim="c", node="n"))
        second = await s.pods.create(pod_with_claim("two", claim="c", node="n"))
        await s.allocate("c", first, second)
        assert len((await s.get("c")).status.reservedFor) == 2
        await s.finish("one")
        left = await s.get("c")
        assert [consumer.name for consumer in left.status.reservedFor] == ["two"]
        assert left.status.allocation is not None
        await s.pods.delete("two", "default", options=NOW)
        await s.settle()
        deallocated = await s.get("c")
        assert (deallocated.status.reservedFor, deallocated.status.allocation, deallocated.metadata.finalizers) == (
            [],
            None,
            [],
        )


async def test_claim_is_reserved_for_a_pod_created_with_node_name() -> None:
    async with claim_cluster() as s:
        await s.claims.create(claim())
        other = await s.pods.create(pod_with_claim("other", claim="c", node="n"))
        await s.allocate("c", other)
        pod = await s.pods.create(pod_with_claim("p", claim="c", node="n"))
        await s.settle()
        consumers = (await s.get("c")).status.reservedFor
        assert [consumer.uid for consumer in consumers] == [other.metadata.uid, pod.metadata.uid]


async def test_generated_claim_of_a_finished_pod_is_deleted() -> None:
    async with claim_cluster() as s:
        await s.cluster.client.for_kind(ResourceClaimTemplate).create(template())
        pod = await s.pods.create(pod_with_claim(node="n"))
        await s.settle()
        (name,) = names_of((await s.claims.list()).items)
        await s.allocate(name, pod)
        await s.finish("p")
        assert (await s.claims.list()).items == []


async def test_reservation_for_an_unknown_pod_is_removed() -> None:
    async with pod_cluster() as c:
        s = ClaimCluster(c)
        await s.claims.create(claim())
        unknown_pod = codec.from_value({"metadata": {"name": "gone", "uid": "x"}}, Pod)
        await s.allocate("c", unknown_pod)
        async with c.running(CONTROLLER):
            await s.settle()
            assert (await s.get("c")).status.reservedFor == []


async def test_deleted_claim_is_removed_once_deallocated() -> None:
    async with claim_cluster() as s:
        await s.claims.create(claim())
        pod = await s.pods.create(pod_with_claim(claim="c", node="n"))
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
        raise AssertionError("claim c still exists")
