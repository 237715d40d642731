"""Pods with devices: the cost of a decision, and how long the first one, which reads all devices, blocks the loop."""

import asyncio
import gc
import time
from collections.abc import Iterator

from benchmarks import Row
from benchmarks.scheduler_bench import node, pod
from benchmarks.timing import longest_hold
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

NODES, NODES_WITH_DEVICES, DEVICES_PER_NODE, PODS = 5_000, 1_000, 8, 4_000
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
        for at in range(DEVICES_PER_NODE)
    ]
    pool = ResourcePool(name=name, generation=1, resourceSliceCount=1)
    spec = ResourceSliceSpec(driver=DRIVER, nodeName=name, pool=pool, devices=devices)
    return ResourceSlice(metadata=ObjectMeta(name=name, resourceVersion="1"), spec=spec)


def pod_with_claim(number: int) -> tuple[Pod, ResourceClaim]:
    """Return a pod and its claim for one device."""
    new_pod = pod(number, "basic")
    name = f"claim-{number}"
    new_pod.spec.resourceClaims = [PodResourceClaim(name="gpu", resourceClaimName=name)]
    exactly = ExactDeviceRequest(
        deviceClassName="gpu",
        allocationMode="ExactCount",
        count=1,
        selectors=selector(f'device.attributes["{DRIVER}"].model == "a100"'),
    )
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=[DeviceRequest(name="gpu", exactly=exactly)]))
    meta = ObjectMeta(name=name, namespace=new_pod.metadata.namespace, uid=name, resourceVersion="1")
    return new_pod, ResourceClaim(metadata=meta, spec=spec)


def cluster_with_devices() -> tuple[Simulation, list[Pod]]:
    simulation = Simulation()
    informers = simulation.handle.informers
    chosen = DeviceClassSpec(selectors=selector(f'device.driver == "{DRIVER}"'))
    gpu = DeviceClass(metadata=ObjectMeta(name="gpu", resourceVersion="1"), spec=chosen)
    informers.for_kind(DeviceClass)._put(key_of(gpu), gpu)
    for number in range(NODES):
        new_node = node(number)
        simulation.add_node(new_node)
        if number % (NODES // NODES_WITH_DEVICES) == 1:
            resource_slice = slice_on(new_node.metadata.name)
            informers.for_kind(ResourceSlice)._put(key_of(resource_slice), resource_slice)
    pods = []
    for number in range(PODS):
        new_pod, claim = pod_with_claim(number)
        informers.for_kind(ResourceClaim)._put(key_of(claim), claim)
        pods.append(new_pod)
    return simulation, pods


async def select_node(simulation: Simulation, new_pod: Pod) -> None:
    cycle = simulation.cycle(new_pod)
    await simulation.profile.prepare(cycle)
    placed = simulation.profile.select_node(cycle)
    assert placed.diagnosis is None, placed.diagnosis.message
    name = simulation.table.names[placed.row]
    simulation.table.add_pod(cycle.info, name)
    assert simulation.profile.binding_points.reserve(cycle, name) is None


async def measured() -> tuple[float, float]:
    """Return the seconds for which the first decision blocks the event loop, and the decisions per second after it."""
    simulation, pods = cluster_with_devices()
    gc.collect()
    gc.freeze()
    first, done = pods[0], asyncio.Event()
    async with asyncio.TaskGroup() as group:
        probe = group.create_task(longest_hold(done))
        await asyncio.sleep(0)
        await select_node(simulation, first)
        done.set()
    began = time.process_time()
    for new_pod in pods[1:]:
        await select_node(simulation, new_pod)
    return probe.result(), (len(pods) - 1) / (time.process_time() - began)


def rows() -> Iterator[Row]:
    hold_s, rate = asyncio.run(measured())
    stock = f"{NODES:,} nodes, {NODES_WITH_DEVICES:,} of them with {DEVICES_PER_NODE} devices"
    note = f"{stock}, {PODS:,} pods with a claim for one each"
    yield Row("decisions, devices", rate, "pods/s", 1_000.0, note)
    yield Row("the first decision holds the loop, devices", hold_s * 1e3, "ms", LONGEST_MS, note)
