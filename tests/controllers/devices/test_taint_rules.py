"""DeviceTaintRules: what they select, and what their status reports."""

from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.meta_v1 import Condition
from sampan.api.types.resource_v1 import DeviceRequestAllocationResult, DeviceTaintRule
from sampan.controllers.devices.taint_rules import (
    Eviction,
    RuleCounts,
    by_selector,
    compute_condition,
    compute_eviction,
    find_report,
    join_evictions,
    matches,
    selectors_of,
    taint_of,
)

ADDED, ADDED_S = "2026-01-01T00:00:00Z", 1_767_225_600.0


def rule(
    selector: dict[str, str] | None = None, effect: str = "NoExecute", conditions: list[Any] | None = None
) -> DeviceTaintRule:
    value = {
        "metadata": {"name": "r", "uid": "u", "generation": 2},
        "spec": {"deviceSelector": selector, "taint": {"key": "k", "effect": effect, "timeAdded": ADDED}},
        "status": {"conditions": conditions or []},
    }
    return codec.from_value(value, DeviceTaintRule)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        ({}, True),
        ({"driver": "d"}, True),
        ({"driver": "e"}, False),
        ({"driver": "d", "pool": "p"}, True),
        ({"driver": "d", "pool": "q"}, False),
        ({"driver": "d", "pool": "p", "device": "0"}, True),
        ({"device": "1"}, False),
    ],
)
def test_selected_devices(selector: dict[str, str] | None, expected: bool) -> None:
    selecting = rule(selector)
    assert matches(selecting, "d", "p", "0") is expected
    assert bool(set(by_selector(selecting)) & set(selectors_of("d", "p", "0"))) is expected
    assert not by_selector(rule(selector, "NoSchedule"))


def test_tolerated_rules_are_no_reason_for_an_eviction() -> None:
    taint = taint_of(rule({}))
    tolerations = [{"operator": "Exists", "effect": "NoExecute", "key": "k", "tolerationSeconds": 60}]
    allocated = codec.from_value({"device": "0", "tolerations": tolerations}, DeviceRequestAllocationResult)
    assert compute_eviction([taint], allocated) == Eviction(ADDED_S + 60, frozenset({"u"}))
    allocated.tolerations[0].tolerationSeconds = None
    assert compute_eviction([taint], allocated) is None


def test_joined_evictions_are_the_earliest_with_all_rules() -> None:
    evictions = [Eviction(2.0, frozenset({"a"})), None, Eviction(1.0, frozenset({"b"}))]
    assert join_evictions(evictions) == Eviction(1.0, frozenset({"a", "b"}))
    assert join_evictions([None]) is None


SIMULATED = (
    "1 published device selected. 2 allocated devices selected. 2 pods would be evicted in 1 namespace if the effect "
    "was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
)


@pytest.mark.parametrize(
    ("effect", "counts", "evicted", "expected"),
    [
        ("NoExecute", RuleCounts(), 0, ("False", "NotStarted", "")),
        (
            "NoExecute",
            RuleCounts(1, 1),
            0,
            ("True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace."),
        ),
        (
            "NoExecute",
            RuleCounts(3, 2),
            1,
            (
                "True",
                "PodsPendingEviction",
                "3 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller.",
            ),
        ),
        ("NoExecute", RuleCounts(), 2, ("False", "Completed", "2 pods evicted since starting the controller.")),
        ("None", RuleCounts(2, 1, 1, 2), 0, ("False", "NoEffect", SIMULATED)),
        ("NoSchedule", RuleCounts(), 0, ("False", "OtherEffect", "Eviction only happens for the NoExecute effect.")),
    ],
)
def test_condition(effect: str, counts: RuleCounts, evicted: int, expected: tuple[str, str, str]) -> None:
    condition = compute_condition(rule({}, effect), counts, evicted)
    assert (condition.status, condition.reason, condition.message) == expected
    assert (condition.type, condition.observedGeneration) == ("EvictionInProgress", 2)


def test_report_of_an_earlier_generation_does_not_count() -> None:
    reports = [
        {"type": "EvictionInProgress", "status": "False", "observedGeneration": generation} for generation in (1, 2)
    ]
    assert find_report(rule({}, conditions=reports[:1])) is None
    assert isinstance(find_report(rule({}, conditions=reports[1:])), Condition)
