"""Devices from ResourceSlices to pods: claims from templates, extended resources of a DeviceClass, and release."""

import asyncio
from collections.abc import Callable
from typing import Any

from sampan.api.types.core_v1 import Pod, PodResourceClaim, ResourceRequirements
from sampan.api.types.core_v1 import ResourceClaim as CoreClaim
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.resource_v1 import (
    CELDeviceSelector,
    Device,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from sampan.machinery.client import DELETED, Client, DeleteParameters, Selection
from sampan.testing import Cluster, builders

DRIVER, GPU, NAMESPACE = "gpu.example.com", "example.com/gpu", "default"
TIMEOUT_S = 120


def slice_on(node: str, count: int) -> ResourceSlice:
    model = {"model": DeviceAttribute(string="a100")}
    spec = ResourceSliceSpec(
        driver=DRIVER,
        nodeName=node,
        pool=ResourcePool(name=node, generation=1, resourceSliceCount=1),
        devices=[Device(name=f"gpu-{at}", attributes=model) for at in range(count)],
    )
    return ResourceSlice(metadata=ObjectMeta(name=f"{node}-gpus"), spec=spec)


def gpu_class() -> DeviceClass:
    chosen = DeviceSelector(cel=CELDeviceSelector(expression=f'device.driver == "{DRIVER}"'))
    spec = DeviceClassSpec(selectors=[chosen], extendedResourceName=GPU)
    return DeviceClass(metadata=ObjectMeta(name="gpu"), spec=spec)


def template() -> ResourceClaimTemplate:
    fitting = DeviceSelector(cel=CELDeviceSelector(expression=f'device.attributes["{DRIVER}"].model.startsWith("a")'))
    request = DeviceRequest(name="gpu", exactly=ExactDeviceRequest(deviceClassName="gpu", selectors=[fitting]))
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=[request]))
    return ResourceClaimTemplate(
        metadata=ObjectMeta(name="one-gpu", namespace=NAMESPACE), spec=ResourceClaimTemplateSpec(spec=spec)
    )


def pod_with_claim_template(name: str) -> Pod:
    pod = builders.pod(name, namespace=NAMESPACE)
    assert pod.spec.containers
    pod.spec.resourceClaims = [PodResourceClaim(name="gpu", resourceClaimTemplateName="one-gpu")]
    pod.spec.containers[0].resources = ResourceRequirements(claims=[CoreClaim(name="gpu")])
    return pod


def pod_with_extended_resource(name: str, amount: str) -> Pod:
    pod = builders.pod(name, namespace=NAMESPACE)
    assert pod.spec.containers
    pod.spec.containers[0].resources = ResourceRequirements(limits={GPU: amount})
    return pod


async def wait_for_object(client: Client, kind: Any, name: str, holds: Callable[[Any], bool]) -> Any:
    """Return the object once it matches."""
    chosen = Selection(namespace=NAMESPACE, fields=f"metadata.name={name}")
    async with client.for_kind(kind).watch(chosen, initial_events=True) as events:
        async for batch in events:
            for event in batch:
                if isinstance(event.object, kind) and event.type != DELETED and holds(event.object):
                    return event.object
    raise AssertionError(f"the watch of {name} has ended")


async def wait_until_no_claims(client: Client) -> None:
    """Wait until all ResourceClaims are deleted."""
    left: set[str] = set()
    async with client.for_kind(ResourceClaim).watch(initial_events=True) as events:
        async for batch in events:
            for event in batch:
                if isinstance(event.object, ResourceClaim) and event.object.metadata.name:
                    change = left.discard if event.type == DELETED else left.add
                    change(event.object.metadata.name)
            if not left and any(event.ends_initial_events or event.type == DELETED for event in batch):
                return


def is_running(pod: Pod) -> bool:
    return pod.status.phase == "Running"


def is_unschedulable(pod: Pod) -> bool:
    return any(condition.type == "PodScheduled" and condition.status == "False" for condition in pod.status.conditions)


async def devices_of(client: Client, claim: str) -> list[tuple[str, str]]:
    stored_claim = await client.for_kind(ResourceClaim).get(claim, NAMESPACE)
    assert stored_claim.status.allocation is not None
    return [(result.pool, result.device) for result in stored_claim.status.allocation.devices.results]


async def test_devices_are_allocated_to_pods_and_released() -> None:
    async with asyncio.timeout(TIMEOUT_S), Cluster(nodes=3) as cluster:
        client = cluster.client
        node = "node-1"
        await client.for_kind(DeviceClass).create(gpu_class())
        await client.for_kind(ResourceSlice).create(slice_on(node, 3))
        await client.for_kind(ResourceClaimTemplate).create(template())
        raw = client.for_kind(Pod)
        await raw.create(pod_with_claim_template("t"))
        await raw.create(pod_with_extended_resource("x", "2"))
        by_template = await wait_for_object(client, Pod, "t", is_running)
        extended = await wait_for_object(client, Pod, "x", is_running)
        assert by_template.spec.nodeName == extended.spec.nodeName == node
        own = by_template.status.resourceClaimStatuses[0].resourceClaimName
        special = extended.status.extendedResourceClaimStatus.resourceClaimName
        allocated = await devices_of(client, own) + await devices_of(client, special)
        assert sorted(allocated) == [(node, f"gpu-{at}") for at in range(3)]
        await raw.create(pod_with_extended_resource("late", "1"))
        late = await wait_for_object(client, Pod, "late", is_unschedulable)
        message = next(condition.message for condition in late.status.conditions if condition.type == "PodScheduled")
        assert message.startswith("0/3 nodes are available: 3 cannot allocate all claims.")
        await raw.delete("x", NAMESPACE, options=DeleteParameters(grace_period_s=0))
        late = await wait_for_object(client, Pod, "late", is_running)
        assert late.spec.nodeName == node
        for name in ("t", "late"):
            await raw.delete(name, NAMESPACE, options=DeleteParameters(grace_period_s=0))
        await wait_until_no_claims(client)
