"""Eviction of pods whose devices are tainted: immediately, after tolerationSeconds, or never."""

from dataclasses import replace
from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.feature_gates import FeatureGates
from sampan.api.types.core_v1 import Event, Pod
from sampan.api.types.resource_v1 import Device, DeviceRequestAllocationResult, DeviceTaintRule, ResourceSlice
from sampan.controllers.devices.taint_eviction import device_of
from sampan.controllers.devices.taint_rules import Eviction, compute_eviction, taints_of
from tests.controllers.cluster import CONFIG, Cluster
from tests.controllers.devices.resource_claims import ALLOCATION, ClaimCluster, claim, pod_with_claim
from tests.controllers.ownership.pod_cluster import pod_cluster

CONTROLLER = "device-taint-eviction-controller"
TAINTED_AT, TAINTED_AT_S = "2026-01-01T00:00:00Z", 1_767_225_600.0
GATES = FeatureGates(level=37)
NO_RULES = FeatureGates({"DRADeviceTaintRules": False}, level=37)
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
    expected = None if after_s is None else Eviction(TAINTED_AT_S + after_s, frozenset())
    assert compute_eviction(taints_of(device), allocated) == expected


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


async def create_rule(s: ClaimCluster, effect: str = "NoExecute", **selector: str) -> None:
    spec = {"deviceSelector": selector, "taint": {"key": "broken", "effect": effect}}
    rule = codec.from_value({"metadata": {"name": "r"}, "spec": spec}, DeviceTaintRule)
    await s.cluster.client.for_kind(DeviceTaintRule).create(rule)
    await s.settle()


async def report(s: ClaimCluster) -> tuple[str, str, str]:
    (condition,) = (await s.cluster.client.for_kind(DeviceTaintRule).get("r")).status.conditions
    return condition.status, condition.reason, condition.message


async def test_rule_evicts_pods_and_reports_it() -> None:
    async with pod_cluster(GATES) as c, c.running(CONTROLLER, config=replace(CONFIG, feature_gates=GATES)):
        s = await pod_on_device(c)
        await create_rule(s, driver="d.example")
        assert (await s.pods.get("p", "default")).metadata.deletionTimestamp is not None
        assert await report(s) == ("True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")
        await c.clock.advance(11)
        assert await report(s) == ("False", "Completed", "1 pod evicted since starting the controller.")
        before = await c.revision()
        await c.clock.advance(60)
        assert await c.revision() == before


async def test_rule_without_effect_reports_what_it_would_evict() -> None:
    async with pod_cluster(GATES) as c, c.running(CONTROLLER, config=replace(CONFIG, feature_gates=GATES)):
        s = await pod_on_device(c)
        await create_rule(s, "None", driver="d.example", pool="p")
        assert (await s.pods.get("p", "default")).metadata.deletionTimestamp is None
        status, reason, message = await report(s)
        assert (status, reason) == ("False", "NoEffect")
        assert message.startswith(
            "1 published device selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the"
        )


async def test_rules_are_ignored_without_their_gate() -> None:
    async with pod_cluster(GATES) as c, c.running(CONTROLLER, config=replace(CONFIG, feature_gates=NO_RULES)):
        s = await pod_on_device(c)
        await create_rule(s, driver="d.example")
        assert (await s.pods.get("p", "default")).metadata.deletionTimestamp is None
