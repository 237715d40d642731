"""Small simulations of nodes, resource slices and claims, and the allocations for claims in them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sampan.api.types.core_v1 import Node
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.resource_v1 import (
    AllocationResult,
    CELDeviceSelector,
    Device,
    DeviceAllocationResult,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from sampan.machinery.copies import copy_of
from sampan.machinery.object_key import key_of
from sampan.scheduler.devices.allocated_devices import AllocatedDevices
from sampan.scheduler.devices.allocation_cache import AllocationCache, run_to_end
from sampan.scheduler.devices.claim_requests import read_claim_requests
from sampan.scheduler.devices.device_inventory import NodeViews, ResourceSliceIndex
from sampan.scheduler.devices.device_selectors import DeviceSelectors
from sampan.scheduler.devices.pod_allocation import allocation_result
from sampan.scheduler.simulation import Simulation
from tests.scheduler.random_clusters import profile_with

DRIVER = "gpu.example.com"
CLASS = DeviceClass(metadata=ObjectMeta(name="gpu"))
SELECTORS = DeviceSelectors()


def cel(text: str) -> list[DeviceSelector]:
    return [DeviceSelector(cel=CELDeviceSelector(expression=text))]


def device(name: str, model: str = "a", link: int | None = None, **more: Any) -> Device:
    attributes = {"model": DeviceAttribute(string=model)}
    if link is not None:
        attributes["link"] = DeviceAttribute(int=link)
    return Device(name=name, attributes=attributes, **more)


def slice_of(
    devices: list[Device],
    *,
    node: str | None = "n",
    pool: str = "p",
    name: str = "",
    generation: int = 1,
    count: int = 1,
    **more: Any,
) -> ResourceSlice:
    spec = ResourceSliceSpec(
        driver=DRIVER,
        nodeName=node,
        pool=ResourcePool(name=pool, generation=generation, resourceSliceCount=count),
        devices=devices,
        **more,
    )
    return ResourceSlice(metadata=ObjectMeta(name=name or f"{pool}-{generation}"), spec=spec)


def exact_request(name: str, count: int = 1, **more: Any) -> DeviceRequest:
    return DeviceRequest(
        name=name, exactly=ExactDeviceRequest(deviceClassName="gpu", allocationMode="ExactCount", count=count, **more)
    )


def all_devices_request(name: str, **more: Any) -> DeviceRequest:
    exact = ExactDeviceRequest(deviceClassName="gpu", allocationMode="All", **more)
    return DeviceRequest(name=name, exactly=exact)


def first_available_request(name: str, *alternatives: DeviceSubRequest) -> DeviceRequest:
    return DeviceRequest(name=name, firstAvailable=list(alternatives))


def subrequest(name: str, count: int = 1, **more: Any) -> DeviceSubRequest:
    return DeviceSubRequest(name=name, deviceClassName="gpu", allocationMode="ExactCount", count=count, **more)


def claim(
    *requests: DeviceRequest, constraints: list[DeviceConstraint] | None = None, name: str = "c"
) -> ResourceClaim:
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace="x", uid=name),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=list(requests), constraints=constraints or [])),
    )


def allocated_claim(*results: DeviceRequestAllocationResult, name: str = "other") -> ResourceClaim:
    """A claim to which these devices are allocated."""
    new_claim = claim(name=name)
    devices = DeviceAllocationResult(results=list(results))
    new_claim.status = ResourceClaimStatus(allocation=AllocationResult(devices=devices))
    return new_claim


def result(device: str, pool: str = "p", **more: Any) -> DeviceRequestAllocationResult:
    return DeviceRequestAllocationResult(request="r", driver=DRIVER, pool=pool, device=device, **more)


@dataclass
class World:
    slices: Sequence[ResourceSlice] = ()
    nodes: Sequence[Node] = field(default_factory=lambda: [Node(metadata=ObjectMeta(name="n"))])
    classes: Sequence[DeviceClass] = (CLASS,)
    max_steps: int = 100_000
    version: int = 0

    def __post_init__(self) -> None:
        simulation = self.simulation = Simulation(profile=profile_with())
        informers = simulation.handle.informers
        self.slice_informer, self.claim_informer = informers.for_kind(ResourceSlice), informers.for_kind(ResourceClaim)
        self.allocated_devices = AllocatedDevices(self.claim_informer)
        self.views = NodeViews(table=simulation.table, index=ResourceSliceIndex(self.slice_informer))
        for node in self.nodes:
            simulation.add_node(node)
        for resource_slice in self.slices:
            self.put(resource_slice)

    def put(self, obj: ResourceSlice | ResourceClaim) -> None:
        informer: Any = self.slice_informer if isinstance(obj, ResourceSlice) else self.claim_informer
        self.version += 1
        obj = copy_of(obj)
        obj.metadata.resourceVersion = str(self.version)
        informer._put(key_of(obj), obj)

    def remove(self, obj: ResourceSlice | ResourceClaim) -> None:
        informer: Any = self.slice_informer if isinstance(obj, ResourceSlice) else self.claim_informer
        informer._remove(key_of(obj))

    def make_cache(self, *claims: ResourceClaim) -> AllocationCache:
        self.views.refresh()
        by_name = {device_class.metadata.name: device_class for device_class in self.classes}
        return AllocationCache(
            pod_requests=read_claim_requests(claims, by_name.get),
            views=self.views,
            allocated_devices=self.allocated_devices,
            selectors=SELECTORS,
            max_steps=self.max_steps,
        )

    def outcome_of(
        self, allocation_cache: AllocationCache, claims: Sequence[ResourceClaim], node: str = "n"
    ) -> list[AllocationResult] | str:
        """The allocations, or the message of the rejection."""
        row = self.simulation.table.rows[node]
        rows = np.array([row], dtype=np.intp)
        run_to_end(allocation_cache.catch_up(rows))
        allocations = allocation_cache.allocations(row)
        if allocations is None:
            return allocation_cache.refusals[int(allocation_cache.outcomes(rows)[0]) - 1].text_for(claims)
        parts = zip(allocation_cache.pod_requests.claims, allocations, strict=True)
        return [allocation_result(claim_request, devices, node) for claim_request, devices in parts]

    def allocate(self, *claims: ResourceClaim, node: str = "n") -> list[AllocationResult] | str:
        return self.outcome_of(self.make_cache(*claims), claims, node)

    def devices_of(self, *claims: ResourceClaim, node: str = "n") -> Any:
        """The requests and devices of each claim, or the message of the rejection."""
        allocations = self.allocate(*claims, node=node)
        if isinstance(allocations, str):
            return allocations
        return [
            [(result.request, result.device) for result in allocation.devices.results] for allocation in allocations
        ]
