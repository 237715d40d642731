"""Pods with resource claims: devices are written to the claims before the pod is bound."""

from sampan.api.types.core_v1 import Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from sampan.machinery.client import DeleteParameters
from sampan.machinery.copies import copy_of
from tests.scheduler.devices.device_cluster import add_nodes_with_devices, named_claim, pod_with_claims
from tests.scheduler.devices.device_world import DRIVER, cel, device, exact_request, slice_of
from tests.scheduler.running_scheduler import NAMESPACE, running_scheduler


async def test_devices_are_allocated_reserved_and_reused() -> None:
    async with running_scheduler() as cluster:
        await add_nodes_with_devices(cluster)
        client = cluster.cluster.client
        claims = client.for_kind(ResourceClaim)
        await claims.create(
            named_claim("one", exact_request("r", selectors=cel(f'device.attributes["{DRIVER}"].model == "b"')))
        )
        pod = await cluster.create(pod_with_claims(cluster, "p", "one"))
        assert await cluster.find_nodes("p") == ["b"]
        claim = await claims.get("one", NAMESPACE)
        assert claim.metadata.finalizers == ["resource.kubernetes.io/delete-protection"]
        allocation = claim.status.allocation
        assert allocation is not None
        (result,) = allocation.devices.results
        assert (result.request, result.driver, result.pool, result.device) == ("r", DRIVER, "b", "d1")
        assert allocation.nodeSelector is not None
        assert allocation.nodeSelector.nodeSelectorTerms[0].matchFields[0].values == ["b"]  # type: ignore[index]
        assert [(consumer.resource, consumer.name, consumer.uid) for consumer in claim.status.reservedFor] == [
            ("pods", "p", pod.metadata.uid)
        ]
        await claims.create(named_claim("two", exact_request("r", 2)))
        await cluster.create(pod_with_claims(cluster, "q", "two"))
        assert await cluster.find_nodes("q") == [""]
        message = (await cluster.condition("q")).message
        assert message.startswith(
            "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: "
        )
        await client.for_kind(Pod).delete("p", NAMESPACE, options=DeleteParameters(grace_period_s=0))
        freed = copy_of(await claims.get("one", NAMESPACE))
        freed.status.allocation, freed.status.reservedFor = None, []
        await claims.update_status(freed)
        await cluster.cluster.clock.advance(15)
        assert await cluster.find_nodes("q") == ["b"]


async def test_pod_waits_for_its_claim_and_device_class() -> None:
    async with running_scheduler() as cluster:
        await add_nodes_with_devices(cluster)
        client = cluster.cluster.client
        pod = await cluster.create(pod_with_claims(cluster, "p", "late"))
        await cluster.settle()
        queued = cluster.scheduler.queue.get(pod.metadata.uid)
        assert queued is not None
        assert queued.gate_message == 'could not find ResourceClaim "default/late"'
        other = named_claim("late", exact_request("r"))
        other.spec.devices.requests[0].exactly.deviceClassName = "later"  # type: ignore[index,union-attr]
        await client.for_kind(ResourceClaim).create(other)
        await cluster.settle()
        message = "request r: device class later does not exist"
        assert message in (await cluster.condition("p")).message
        await client.for_kind(DeviceClass).create(DeviceClass(metadata=ObjectMeta(name="later")))
        await cluster.cluster.clock.advance(15)
        assert await cluster.find_nodes("p") == ["b"]


async def test_unreserved_claim_with_devices_elsewhere_is_deallocated() -> None:
    """The pod may only run on a node without these devices, and no other pod has reserved the claim."""
    async with running_scheduler() as cluster:
        await add_nodes_with_devices(cluster)
        client = cluster.cluster.client
        await client.for_kind(ResourceClaim).create(named_claim("one", exact_request("r")))
        await cluster.create(pod_with_claims(cluster, "p", "one"))
        assert await cluster.find_nodes("p") == ["b"]
        await client.for_kind(Pod).delete("p", NAMESPACE, options=DeleteParameters(grace_period_s=0))
        unreserved = copy_of(await client.for_kind(ResourceClaim).get("one", NAMESPACE))
        unreserved.status.reservedFor = []
        await client.for_kind(ResourceClaim).update_status(unreserved)
        bound = pod_with_claims(cluster, "q", "one")
        bound.spec.nodeSelector = {"kubernetes.io/hostname": "a"}
        await client.for_kind(ResourceSlice).create(slice_of([device("e0")], node="a", pool="a"))
        await cluster.create(bound)
        await cluster.cluster.clock.advance(15)
        assert await cluster.find_nodes("q") == ["a"]
        claim = await client.for_kind(ResourceClaim).get("one", NAMESPACE)
        assert claim.status.allocation is not None
        assert claim.status.allocation.devices.results[0].pool == "a"
