"""Pods with devices: what a decision costs, and how long the first one, which looks at every device, holds the loop."""

import asyncio
import gc
import time
from collections.abc import Iterator

from benchmarks import Row
from benchmarks.scheduler_bench import node, pod
from sampan.api.types.core_v1 import Pod, PodResourceClaim
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
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from sampan.machinery.object_key import key_of
from sampan.scheduler.simulation import Simulation

NODES, STOCKED, EACH, PODS = 5_000, 1_000, 8, 4_000
DRIVER = "gpu.example.com"
LONGEST_MS = 50.0


def selector(expression: str) -> list[DeviceSelector]:
    return [DeviceSelector(cel=CELDeviceSelector(expression=expression))]


def slice_on(name: str) -> ResourceSlice:
    devices = [
        Device(
            name=f"gpu-{at}",
            attributes={"model": DeviceAttribute(string="a100"), "uuid": DeviceAttribute(string=f"{name}/{at}")},
        )
        for at in range(EACH)
    ]
    pool = ResourcePool(name=name, generation=1, resourceSliceCount=1)
    spec = ResourceSliceSpec(driver=DRIVER, nodeName=name, pool=pool, devices=devices)
    return ResourceSlice(metadata=ObjectMeta(name=name, resourceVersion="1"), spec=spec)


def wanting(number: int) -> tuple[Pod, ResourceClaim]:
    """A pod with a claim of its own for one device."""
    made = pod(number, "basic")
    name = f"claim-{number}"
    made.spec.resourceClaims = [PodResourceClaim(name="gpu", resourceClaimName=name)]
    exactly = ExactDeviceRequest(
        deviceClassName="gpu",
        allocationMode="ExactCount",
        count=1,
        selectors=selector(f'device.attributes["{DRIVER}"].model == "a100"'),
    )
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=[DeviceRequest(name="gpu", exactly=exactly)]))
    meta = ObjectMeta(name=name, namespace=made.metadata.namespace, uid=name, resourceVersion="1")
    return made, ResourceClaim(metadata=meta, spec=spec)


def stocked() -> tuple[Simulation, list[Pod]]:
    simulation = Simulation()
    informers = simulation.handle.informers
    chosen = DeviceClassSpec(selectors=selector(f'device.driver == "{DRIVER}"'))
    gpu = DeviceClass(metadata=ObjectMeta(name="gpu", resourceVersion="1"), spec=chosen)
    informers.of(DeviceClass)._put(key_of(gpu), gpu)
    for number in range(NODES):
        made = node(number)
        simulation.add_node(made)
        if number % (NODES // STOCKED) == 1:
            one = slice_on(made.metadata.name)
            informers.of(ResourceSlice)._put(key_of(one), one)
    pods = []
    for number in range(PODS):
        pod_requests, claim = wanting(number)
        informers.of(ResourceClaim)._put(key_of(claim), claim)
        pods.append(pod_requests)
    return simulation, pods


async def select_node(simulation: Simulation, pod_requests: Pod) -> None:
    cycle = simulation.cycle(pod_requests)
    await simulation.profile.prepare(cycle)
    placed = simulation.profile.select_node(cycle)
    assert placed.diagnosis is None, placed.diagnosis.message
    name = simulation.table.names[placed.row]
    simulation.table.add_pod(cycle.info, name)
    assert simulation.profile.binding_cycle.reserve(cycle, name) is None


async def longest_hold(until: asyncio.Event) -> float:
    """The most processor time between two turns of this task."""
    longest = 0.0
    while not until.is_set():
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
    return longest


async def measured() -> tuple[float, float]:
    """The longest hold of the first decision in seconds, and decisions a second from then on."""
    simulation, pods = stocked()
    gc.collect()
    gc.freeze()
    first, done = pods[0], asyncio.Event()
    async with asyncio.TaskGroup() as group:
        probe = group.create_task(longest_hold(done))
        await asyncio.sleep(0)
        await select_node(simulation, first)
        done.set()
    began = time.process_time()
    for one in pods[1:]:
        await select_node(simulation, one)
    return probe.result(), (len(pods) - 1) / (time.process_time() - began)


def rows() -> Iterator[Row]:
    hold_s, rate = asyncio.run(measured())
    note = f"{NODES:,} nodes, {STOCKED:,} of them with {EACH} devices, {PODS:,} pods with a claim for one each"
    yield Row("decisions, devices", rate, "pods/s", 1_000.0, note)
    yield Row("the first decision holds the loop, devices", hold_s * 1e3, "ms", LONGEST_MS, note)
