"""A running cluster with devices, and pods with resource claims for them."""

from typing import Any

from sampan.api.types.core_v1 import Pod, PodResourceClaim
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.resource_v1 import DeviceClass, DeviceClassSpec, ResourceClaim, ResourceSlice
from tests.scheduler.devices.device_world import DRIVER, cel, claim, device, slice_of
from tests.scheduler.running_scheduler import NAMESPACE, RunningScheduler


def named_claim(name: str, *requests: Any) -> ResourceClaim:
    new_claim = claim(*requests)
    new_claim.metadata = ObjectMeta(name=name, namespace=NAMESPACE)
    return new_claim


def pod_with_claims(cluster: RunningScheduler, name: str, *claims: str) -> Pod:
    pod = cluster.pod(name)
    pod.spec.resourceClaims = [PodResourceClaim(name=claim, resourceClaimName=claim) for claim in claims]
    return pod


async def add_nodes_with_devices(cluster: RunningScheduler) -> None:
    """Create two nodes, of which `b` has two devices."""
    client = cluster.cluster.client
    for name in ("a", "b"):
        await cluster.node(name)
    spec = DeviceClassSpec(selectors=cel(f'device.driver == "{DRIVER}"'))
    await client.for_kind(DeviceClass).create(DeviceClass(metadata=ObjectMeta(name="gpu"), spec=spec))
    await client.for_kind(ResourceSlice).create(slice_of([device("d0", "a"), device("d1", "b")], node="b", pool="b"))
