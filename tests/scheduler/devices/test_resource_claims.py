"""Claims of pods with devices in the binding cycle: allocation, binding conditions and rollback."""

from typing import Any

from sampan.api.types.core_v1 import Node, Pod
from sampan.api.types.meta_v1 import Condition, ObjectMeta
from sampan.api.types.resource_v1 import (
    AllocatedDeviceStatus,
    CapacityRequirements,
    DeviceCapacity,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from sampan.machinery.client import PatchType
from sampan.machinery.copies import copy_of
from sampan.scheduler.config import DEFAULT_PLUGINS, PluginChoice, ProfileConfig, SchedulerConfig
from sampan.scheduler.framework.contract import Code, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle
from tests.scheduler.devices.device_cluster import add_nodes_with_devices, named_claim, pod_with_claims
from tests.scheduler.devices.device_world import DRIVER, device, exact_request, slice_of
from tests.scheduler.running_scheduler import NAMESPACE, RunningScheduler, running_scheduler


class Fails:
    """A plugin whose PreBind fails `times` times."""

    name, scope = "Fails", PluginScope.NODE

    def __init__(self, handle: Handle) -> None:
        self._left = int(handle.args["times"])

    async def pre_bind(self, cycle: CycleState, node: str) -> Status | None:
        self._left -= 1
        return Status(Code.ERROR, ("not today",)) if self._left >= 0 else None


def failing_config(times: int) -> SchedulerConfig:
    name = f"{__name__}:Fails"
    profile = ProfileConfig(plugins=(*DEFAULT_PLUGINS, PluginChoice(name)), args={name: {"times": times}})
    return SchedulerConfig(profiles=(profile,))


async def get_claim(cluster: RunningScheduler, name: str = "one") -> ResourceClaim:
    return await cluster.cluster.client.for_kind(ResourceClaim).get(name, NAMESPACE)


async def set_device_condition(
    cluster: RunningScheduler, condition: str, *, reason: str = "Reported", message: str = ""
) -> None:
    """Set a condition of the claim's device, as its driver does."""
    claim = copy_of(await get_claim(cluster))
    assert claim.status.allocation is not None
    (result,) = claim.status.allocation.devices.results
    ready = Condition(
        type=condition,
        status="True",
        reason=reason,
        message=message,
        lastTransitionTime="2026-01-01T00:00:00Z",
    )
    status = AllocatedDeviceStatus(driver=result.driver, pool=result.pool, device=result.device, conditions=[ready])
    claim.status.devices = [status]
    await cluster.cluster.client.for_kind(ResourceClaim).update_status(claim)
    await cluster.settle()


async def add_device_with_binding_conditions(cluster: RunningScheduler) -> None:
    """Create a device on b that a driver must make ready, and a pod that waits for it."""
    client = cluster.cluster.client
    for name in ("a", "b"):
        await cluster.node(name)
    await client.for_kind(DeviceClass).create(DeviceClass(metadata=ObjectMeta(name="gpu")))
    unready_device = device("d0", bindingConditions=["ready"], bindingFailureConditions=["failed"], bindsToNode=True)
    await client.for_kind(ResourceSlice).create(slice_of([unready_device], node="b", pool="b"))
    await client.for_kind(ResourceClaim).create(named_claim("one", exact_request("r")))
    await cluster.create(pod_with_claims(cluster, "p", "one"))
    await cluster.settle()


async def test_failed_binding_removes_the_reservation() -> None:
    async with running_scheduler(failing_config(1)) as cluster:
        await add_nodes_with_devices(cluster)
        await cluster.cluster.client.for_kind(ResourceClaim).create(named_claim("one", exact_request("r")))
        await cluster.create(pod_with_claims(cluster, "p", "one"))
        assert await cluster.find_nodes("p") == [""]
        claim = await get_claim(cluster)
        assert claim.status.reservedFor == []
        assert claim.status.allocation is not None, "the allocation is kept"
        assert "not today" in (await cluster.condition("p")).message
        await cluster.cluster.clock.advance(15)
        assert await cluster.find_nodes("p") == ["b"]
        assert [consumer.name for consumer in (await get_claim(cluster)).status.reservedFor] == ["p"]


async def test_pod_is_bound_once_its_devices_are_ready() -> None:
    async with running_scheduler() as cluster:
        await add_device_with_binding_conditions(cluster)
        claim = await get_claim(cluster)
        assert claim.status.allocation is not None
        (result,) = claim.status.allocation.devices.results
        assert (result.bindingConditions, result.bindingFailureConditions) == (["ready"], ["failed"])
        assert claim.status.allocation.allocationTimestamp is not None
        assert await cluster.find_nodes("p") == [""], "the claim is reserved, but the pod is not bound yet"
        (event,) = await cluster.events("BindingConditionsPending")
        assert event.note == "waiting for binding conditions for device on node b"
        await cluster.cluster.clock.advance(300)
        assert await cluster.find_nodes("p") == [""]
        await set_device_condition(cluster, "ready")
        assert await cluster.find_nodes("p") == ["b"]


async def test_failed_device_binding_is_retried_with_another_device() -> None:
    async with running_scheduler() as cluster:
        await add_device_with_binding_conditions(cluster)
        await set_device_condition(cluster, "failed", reason="Broken", message="no such luck")
        failed = await cluster.events("FailedScheduling")
        message = 'device binding failed: claim=one, reason=Broken, message="no such luck"'
        assert message in failed[-1].note
        assert (await get_claim(cluster)).status.reservedFor == []
        better = slice_of([device("e0")], node="b", pool="a-better")
        await cluster.cluster.client.for_kind(ResourceSlice).create(better)
        await cluster.cluster.clock.advance(60)
        assert await cluster.find_nodes("p") == ["b"]
        claim = await get_claim(cluster)
        assert claim.status.allocation is not None
        assert claim.status.allocation.devices.results[0].device == "e0", "the failed device is deallocated"
        notes = [event.note for event in await cluster.events("FailedScheduling")]
        assert any("2 resourceclaim not available on the node." in note for note in notes), notes
        assert any("deallocation of ResourceClaim completed" in note for note in notes), notes


async def test_device_binding_times_out() -> None:
    profile = ProfileConfig(args={"DynamicResources": {"bindingTimeout": "30s"}})
    async with running_scheduler(SchedulerConfig(profiles=(profile,))) as cluster:
        await add_device_with_binding_conditions(cluster)
        await cluster.cluster.clock.advance(29)
        assert len((await get_claim(cluster)).status.reservedFor) == 1
        await cluster.cluster.clock.advance(3)
        assert "device binding timeout: " in (await cluster.events("FailedScheduling"))[0].note


async def serve_extended_resource(cluster: RunningScheduler, own: str = "0") -> None:
    """Create two devices on b that serve example.com/gpu, of which node a has `own` as an extended resource."""
    client = cluster.cluster.client
    amounts: Any = {"example.com/gpu": own} if own != "0" else {}
    await cluster.node("a", **amounts)
    await cluster.node("b")
    device_class = DeviceClass(metadata=ObjectMeta(name="gpu"))
    device_class.spec.extendedResourceName = "example.com/gpu"
    await client.for_kind(DeviceClass).create(device_class)
    await client.for_kind(ResourceSlice).create(slice_of([device("d0"), device("d1")], node="b", pool="b"))


def pod_requesting(cluster: RunningScheduler, name: str, amount: str, resource: str = "example.com/gpu") -> Pod:
    pod = cluster.pod(name)
    assert pod.spec.containers
    amounts = {resource: amount}
    resources = pod.spec.containers[0].resources
    resources.requests, resources.limits = {**resources.requests, **amounts}, amounts
    return pod


async def list_claims(cluster: RunningScheduler) -> list[ResourceClaim]:
    page = await cluster.cluster.client.for_kind(ResourceClaim).list()
    return list(page.items)


async def test_device_class_serves_extended_resources() -> None:
    async with running_scheduler() as cluster:
        await serve_extended_resource(cluster)
        pod = await cluster.create(pod_requesting(cluster, "p", "2"))
        assert await cluster.find_nodes("p") == ["b"]
        (claim,) = await list_claims(cluster)
        assert claim.metadata.name.startswith("p-extended-resources-")
        assert claim.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
        assert [
            (reference.kind, reference.uid, reference.controller) for reference in claim.metadata.ownerReferences
        ] == [("Pod", pod.metadata.uid, True)]
        (request,) = claim.spec.devices.requests or []
        assert request.name == "container-0-request-1"
        assert request.exactly is not None
        assert (request.exactly.deviceClassName, request.exactly.count) == ("gpu", 2)
        assert claim.status.allocation is not None
        assert [result.device for result in claim.status.allocation.devices.results] == ["d0", "d1"]
        assert [consumer.uid for consumer in claim.status.reservedFor] == [pod.metadata.uid]
        stored_pod = await cluster.get("p")
        assert stored_pod is not None
        claim_status = stored_pod.status.extendedResourceClaimStatus
        assert claim_status is not None
        assert claim_status.resourceClaimName == claim.metadata.name
        assert [
            (mapping.containerName, mapping.resourceName, mapping.requestName)
            for mapping in claim_status.requestMappings or ()
        ] == [
            (pod.spec.containers[0].name, "example.com/gpu", "container-0-request-1")  # type: ignore[index]
        ]
        await cluster.create(pod_requesting(cluster, "q", "1"))
        assert await cluster.find_nodes("q") == [""]
        message = (await cluster.condition("q")).message
        assert message.startswith("0/2 nodes are available: 2 cannot allocate all claims. still not schedulable,")


async def test_extended_resource_of_a_node_needs_no_claim() -> None:
    async with running_scheduler() as cluster:
        await serve_extended_resource(cluster, own="1")
        for name in ("p", "q", "r"):
            await cluster.create(pod_requesting(cluster, name, "1"))
        assert sorted(await cluster.find_nodes("p", "q", "r")) == ["a", "b", "b"]
        assert len(await list_claims(cluster)) == 2, "no claim for the extended resource of node a"


async def test_device_class_created_or_changed_later_serves_waiting_pods() -> None:
    async with running_scheduler() as cluster:
        client = cluster.cluster.client
        for name in ("a", "b"):
            await cluster.node(name)
        await client.for_kind(ResourceSlice).create(slice_of([device("d0"), device("d1")], node="b", pool="b"))
        await cluster.create(pod_requesting(cluster, "p", "1", "deviceclass.resource.kubernetes.io/gpu"))
        await cluster.create(pod_requesting(cluster, "q", "1"))
        assert await cluster.find_nodes("p", "q") == ["", ""]
        assert "2 Insufficient example.com/gpu" in (await cluster.condition("q")).message
        device_class = DeviceClass(metadata=ObjectMeta(name="gpu"))
        await client.for_kind(DeviceClass).create(device_class)
        await cluster.cluster.clock.advance(15)
        assert await cluster.find_nodes("p", "q") == ["b", ""]
        patch = {"spec": {"extendedResourceName": "example.com/gpu"}}
        await client.for_kind(DeviceClass).patch("gpu", patch, type=PatchType.MERGE)
        await cluster.cluster.clock.advance(60)
        assert await cluster.find_nodes("q") == ["b"]


async def test_a_failed_binding_removes_the_claim_for_extended_resources() -> None:
    async with running_scheduler(failing_config(1)) as cluster:
        await serve_extended_resource(cluster)
        await cluster.create(pod_requesting(cluster, "p", "2"))
        assert await cluster.find_nodes("p") == [""]
        assert await list_claims(cluster) == []
        await cluster.cluster.clock.advance(15)
        assert await cluster.find_nodes("p") == ["b"]
        assert len(await list_claims(cluster)) == 1


async def test_extended_resource_claim_of_an_earlier_scheduler_is_deleted() -> None:
    """The earlier scheduler stopped between writing the claim and binding the pod."""

    async with running_scheduler() as cluster:
        client = cluster.cluster.client
        await serve_extended_resource(cluster)
        await client.for_kind(Node).patch("b", {"spec": {"unschedulable": True}}, type=PatchType.MERGE)
        pod = await cluster.create(pod_requesting(cluster, "p", "1"))
        await cluster.settle()
        leftover = named_claim("left", exact_request("r"))
        leftover.metadata.annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
        owner: Any = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.metadata.uid, "controller": True}
        await client.for_kind(ResourceClaim).create(leftover)
        await client.for_kind(ResourceClaim).patch(
            "left", {"metadata": {"ownerReferences": [owner]}}, NAMESPACE, type=PatchType.MERGE
        )
        await client.for_kind(Node).patch("b", {"spec": {"unschedulable": False}}, type=PatchType.MERGE)
        await cluster.cluster.clock.advance(60)
        assert await cluster.find_nodes("p") == ["b"]
        (claim,) = await list_claims(cluster)
        assert claim.metadata.name != "left"
        notes = [event.note for event in await cluster.events("FailedScheduling")]
        assert any("cannot schedule extended resource claim. deletion of ResourceClaim" in note for note in notes)


async def test_pods_share_the_capacity_of_a_device() -> None:
    """Two pods share a device; the third finds too little of it."""

    async with running_scheduler() as cluster:
        client = cluster.cluster.client
        await cluster.node("a")
        await client.for_kind(DeviceClass).create(DeviceClass(metadata=ObjectMeta(name="gpu")))
        nic = device("nic", allowMultipleAllocations=True, capacity={"bandwidth": DeviceCapacity(value="10G")})
        await client.for_kind(ResourceSlice).create(slice_of([nic], node="a", pool="a"))
        for name, amount in (("p", "6G"), ("q", "4G"), ("r", "1G")):
            requirements = CapacityRequirements(requests={"bandwidth": amount})
            await client.for_kind(ResourceClaim).create(named_claim(name, exact_request("r", capacity=requirements)))
            await cluster.create(pod_with_claims(cluster, name, name))
            await cluster.settle()
        assert await cluster.find_nodes("p", "q", "r") == ["a", "a", ""]
        results = []
        for name in ("p", "q"):
            allocation = (await get_claim(cluster, name)).status.allocation
            assert allocation is not None
            results += allocation.devices.results
        assert [result.consumedCapacity for result in results] == [{"bandwidth": "6G"}, {"bandwidth": "4G"}]
        assert {result.driver for result in results} == {DRIVER}
        assert len({result.shareID for result in results}) == 2


async def test_profiles_share_pending_allocations() -> None:
    """Allocations by one profile count for the other before they are written."""

    profiles = (ProfileConfig(), ProfileConfig(scheduler_name="other"))
    async with running_scheduler(SchedulerConfig(profiles=profiles)) as cluster:
        await add_nodes_with_devices(cluster)
        for name, scheduler in (("p", "default-scheduler"), ("q", "other"), ("r", "default-scheduler")):
            await cluster.cluster.client.for_kind(ResourceClaim).create(named_claim(name, exact_request("r")))
            pod = pod_with_claims(cluster, name, name)
            pod.spec.schedulerName = scheduler
            await cluster.create(pod)
        assert sorted(await cluster.find_nodes("p", "q", "r")) == ["", "b", "b"]
        allocations = [(await get_claim(cluster, name)).status.allocation for name in ("p", "q", "r")]
        devices = [allocation.devices.results[0].device for allocation in allocations if allocation is not None]
        assert sorted(devices) == ["d0", "d1"]
