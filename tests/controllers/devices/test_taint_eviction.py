"""Eviction of pods whose devices are tainted: immediately, after tolerationSeconds, or never."""

from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Event, Pod
from sampan.api.types.resource_v1 import Device, DeviceRequestAllocationResult, ResourceSlice
from sampan.controllers.devices.taint_eviction import compute_eviction_time, device_of
from tests.controllers.cluster import Cluster
from tests.controllers.devices.resource_claims import ALLOCATION, ClaimCluster, claim, pod_with_claim
from tests.controllers.ownership.pod_cluster import pod_cluster

CONTROLLER = "device-taint-eviction-controller"
TAINTED_AT, TAINTED_AT_S = "2026-01-01T00:00:00Z", 1_767_225_600.0
TAINT = {"key": "broken", "value": "yes", "effect": "NoExecute", "timeAdded": TAINTED_AT}


@pytest.mark.parametrize(
    ("taint", "tolerations", "after_s"),
    [
        ({}, [], 0),
        ({"effect": "NoSchedule"}, [], None),
        ({}, [{"operator": "Exists", "effect": "NoExecute"}], None),
        ({}, [{"operator": "Exists", "effect": "NoSchedule"}], 0),
        ({}, [{"operator": "Exists", "effect": "NoExecute", "key": "other"}], 0),
        ({}, [{"operator": "Equal", "effect": "NoExecute", "key": "broken", "value": "no"}], 0),
        ({}, [{"effect": "NoExecute", "key": "broken", "value": "yes", "tolerationSeconds": 60}], 60),
        ({}, [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -5}], 0),
        ({}, [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds} for seconds in (9, 7)], 7),
    ],
)
def test_eviction_time_by_taint_and_tolerations(
    taint: dict[str, Any], tolerations: list[Any], after_s: float | None
) -> None:
    device = codec.from_value({"name": "0", "taints": [{**TAINT, **taint}]}, Device)
    allocated = codec.from_value({"device": "0", "tolerations": tolerations}, DeviceRequestAllocationResult)
    assert compute_eviction_time(device, allocated) == (None if after_s is None else TAINTED_AT_S + after_s)


def slice(name: str = "s", generation: int = 1, taints: list[Any] | None = None) -> ResourceSlice:
    pool = {"name": "p", "generation": generation, "resourceSliceCount": 1}
    devices = [{"name": "0", "taints": taints or []}]
    spec = {"driver": "d.example", "nodeName": "n", "pool": pool, "devices": devices}
    return codec.from_value({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def test_devices_of_old_pool_generations_are_ignored() -> None:
    device = device_of([slice("old", 1, [TAINT]), slice("new", 2)], "0")
    assert device is not None
    assert device.taints == []
    assert device_of([slice()], "1") is None


async def pod_on_device(c: Cluster, *tolerations: dict[str, Any]) -> ClaimCluster:
    s = ClaimCluster(c)
    await s.claims.create(claim())
    pod = await s.pods.create(pod_with_claim(claim="c", node="n"))
    (result,) = ALLOCATION["devices"]["results"]
    await s.allocate("c", pod, results=[{**result, "tolerations": list(tolerations)}])
    await c.client.for_kind(ResourceSlice).create(slice())
    await s.settle()
    return s


async def taint(s: ClaimCluster, *taints: dict[str, Any]) -> None:
    slices = s.cluster.client.for_kind(ResourceSlice)
    resource_slice = await slices.get("s")
    changed = slice(taints=list(taints))
    changed.metadata = resource_slice.metadata
    await slices.update(changed)
    await s.settle()


async def event_messages(s: ClaimCluster) -> list[str]:
    events = (await s.cluster.client.for_kind(Event).list()).items
    return [event.message for event in events if event.reason == "DeviceTaintManagerEviction"]


async def test_pod_without_toleration_is_evicted_immediately() -> None:
    async with pod_cluster() as c, c.running(CONTROLLER):
        s = await pod_on_device(c)
        assert (await s.pods.get("p", "default")).metadata.deletionTimestamp is None
        await taint(s, TAINT)
        pod: Pod = await s.pods.get("p", "default")
        assert pod.metadata.deletionTimestamp is not None
        (condition,) = [condition for condition in pod.status.conditions if condition.type == "DisruptionTarget"]
        assert (condition.status, condition.reason) == ("True", "DeletionByDeviceTaintManager")
        assert await event_messages(s) == ["Marking for deletion"]


async def test_delayed_eviction_is_cancelled_when_the_taint_is_removed() -> None:
    async with pod_cluster() as c, c.running(CONTROLLER):
        s = await pod_on_device(c, {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
        await taint(s, TAINT)
        await c.clock.advance(200)
        assert await event_messages(s) == []
        await taint(s)
        assert await event_messages(s) == ["Cancelling deletion"]
        await c.clock.advance(200)
        assert (await s.pods.get("p", "default")).metadata.deletionTimestamp is None
        await taint(s, TAINT)
        assert (await s.pods.get("p", "default")).metadata.deletionTimestamp is not None
