"""DeviceTaintRules: the taints that they add to devices, and pods that wait for a device without taints."""

from collections.abc import Sequence
from typing import Any

import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.resource_v1 import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaim,
)
from sampan.scheduler.config import SchedulerConfig
from sampan.scheduler.devices.tainted_slices import add_rule_taints
from tests.scheduler.devices.device_cluster import add_nodes_with_devices, named_claim, pod_with_claims
from tests.scheduler.devices.device_world import DRIVER, device, exact_request, slice_of
from tests.scheduler.running_scheduler import running_scheduler


def rule(name: str, selector: DeviceTaintSelector | None) -> DeviceTaintRule:
    spec = DeviceTaintRuleSpec(deviceSelector=selector, taint=DeviceTaint(key=name, effect="NoSchedule"))
    return DeviceTaintRule(metadata=ObjectMeta(name=name), spec=spec)


@pytest.mark.parametrize(
    ("selectors", "taints"),
    [
        pytest.param([None], [[], []], id="no selector"),
        pytest.param([DeviceTaintSelector()], [["0"], ["0"]], id="every device"),
        pytest.param([DeviceTaintSelector(driver=DRIVER, pool="p")], [["0"], ["0"]], id="pool"),
        pytest.param([DeviceTaintSelector(driver="other")], [[], []], id="other driver"),
        pytest.param([DeviceTaintSelector(pool="other")], [[], []], id="other pool"),
        pytest.param([DeviceTaintSelector(device="d1"), DeviceTaintSelector()], [["1"], ["0", "1"]], id="two rules"),
    ],
)
def test_rules_add_taints_to_devices(selectors: Sequence[Any], taints: list[list[str]]) -> None:
    resource_slice = slice_of([device("d0"), device("d1")], pool="p")
    rules = [rule(str(index), selector) for index, selector in enumerate(selectors)]
    tainted = add_rule_taints(resource_slice, rules)
    assert [[taint.key for taint in entry.taints] for entry in tainted.spec.devices] == taints
    assert [entry.taints for entry in resource_slice.spec.devices] == [[], []]


@pytest.mark.parametrize("is_enabled", [True, False])
async def test_a_pod_waits_until_its_device_has_no_taint(is_enabled: bool) -> None:
    config = SchedulerConfig(feature_gates=FeatureGates({"DRADeviceTaintRules": is_enabled}, level=37))
    async with running_scheduler(config) as cluster:
        await add_nodes_with_devices(cluster)
        client = cluster.cluster.client
        rules = client.for_kind(DeviceTaintRule)
        await rules.create(rule("broken", DeviceTaintSelector(driver=DRIVER)))
        await client.for_kind(ResourceClaim).create(named_claim("one", exact_request("r")))
        await cluster.create(pod_with_claims(cluster, "p", "one"))
        assert await cluster.find_nodes("p") == ["" if is_enabled else "b"]
        await rules.delete("broken")
        await cluster.cluster.clock.advance(15)
        assert await cluster.find_nodes("p") == ["b"]
