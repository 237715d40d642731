"""HorizontalPodAutoscalers: rules that the golden replay does not cover."""

from typing import Any

import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscaler
from sampan.apiserver.registry.kinds import horizontalpodautoscalers
from tests.apiserver.registry.kind_rules import Rules

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
SPEC = {"scaleTargetRef": TARGET, "maxReplicas": 5}


def rules_with(**gates: bool) -> Rules:
    return Rules(horizontalpodautoscalers.BEHAVIOR, HorizontalPodAutoscaler, SPEC, FeatureGates(gates, level=37))


RULES = rules_with(HPAScaleToZero=False)
AVERAGE = {"type": "AverageValue", "averageValue": "5"}


def metrics(*specs: dict[str, Any]) -> dict[str, Any]:
    return {"metrics": list(specs)}


def resource(**target: Any) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def pods(**target: Any) -> dict[str, Any]:
    return {"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": target}}


def external(**target: Any) -> dict[str, Any]:
    return {"type": "External", "external": {"metric": {"name": "q"}, "target": target}}


def object_metric(version: str) -> dict[str, Any]:
    described_object = {"kind": "Service", "name": "s", "apiVersion": version}
    target = {"type": "Value", "value": "1"}
    return {
        "type": "Object",
        "object": {"metric": {"name": "rate"}, "describedObject": described_object, "target": target},
    }


def container(**fields: Any) -> dict[str, Any]:
    source = {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 5}, **fields}
    return {"type": "ContainerResource", "containerResource": source}


AT = "spec.metrics[0]"
BOTH = "may not set both a target raw value and a target utilization"


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        (
            {"maxReplicas": -1},
            ["…`minReplicas`", "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1"],
        ),
        (metrics(object_metric("")), []),
        (
            metrics(object_metric("a/b/c")),
            [f'{AT}.object.describedObject.apiVersion: Invalid value: "a/b/c": unexpected…'],
        ),
        (
            metrics(resource(type="Utilization", averageUtilization=5, averageValue="1")),
            [f"{AT}.resource.target.averageValue: Forbidden: {BOTH}"],
        ),
        (metrics(resource(averageUtilization=5)), [f"{AT}.resource.target.type: Required value…", "…or AverageValue"]),
        (
            metrics(external(type="Value", value="1", averageValue="1")),
            [f"{AT}.external.target.value: Forbidden: may not set both a target value for metric and a per-pod target"],
        ),
        (metrics(external(type="Value")), [f"{AT}.external.target.averageValue: Required value…"]),
        (metrics(container(name="", container="")), [f"{AT}.containerResource.name: Required…", "…container"]),
        (metrics(container(container="No")), [f'{AT}.containerResource.container: Invalid value: "No": a lowercase…']),
        (
            metrics({**pods(**AVERAGE), **resource(type="Utilization", averageUtilization=5)}),
            [f"{AT}.pods: Forbidden: must populate the given metric source only"],
        ),
        (metrics({"type": ""}), [f"{AT}.type: Required value…", f'{AT}.type: Unsupported value: ""…']),
        (
            {"behavior": {"scaleUp": {"tolerance": "-1"}}},
            ['spec.behavior.scaleUp.tolerance: Invalid value: "-1": must be greater than or equal to 0'],
        ),
        ({"scaleTargetRef": {**TARGET, "apiVersion": "v1", "kind": "ReplicationController"}}, []),
        (
            {"scaleTargetRef": {**TARGET, "apiVersion": "v1"}},
            ['spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group'],
        ),
    ],
)
def test_errors_of_new_objects(spec: dict[str, Any], faults: list[str]) -> None:
    errors = RULES.faults(spec)
    assert len(errors) == len(faults), errors
    assert all(_matches(text, expected) for text, expected in zip(errors, faults, strict=True)), errors


def _matches(text: str, expected: str) -> bool:
    start, is_cut, end = expected.partition("…")
    return text.startswith(start) and text.endswith(end) if is_cut else text == expected


def test_stored_target_without_api_group_is_allowed_until_its_kind_changes() -> None:
    old = RULES.create({"scaleTargetRef": {"kind": "Deployment", "name": "d"}})
    assert RULES.update(old, {"scaleTargetRef": {"kind": "Deployment", "name": "other"}})[1] == []
    assert len(RULES.update(old, {"scaleTargetRef": {"kind": "StatefulSet", "name": "d"}})[1]) == 1


def test_stored_min_replicas_zero_and_invalid_described_object_are_allowed() -> None:
    old = RULES.create({"minReplicas": 0, **metrics(object_metric("a/b/c"))})
    assert RULES.update(old, {"minReplicas": 0, **metrics(object_metric("d/e/f"))})[1] == []
    spec = {"minReplicas": 0, **metrics(object_metric(""))}
    message = "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"
    for is_allowed in (True, False):
        gates = FeatureGates({"HPAScaleToZero": is_allowed})
        rules = Rules(horizontalpodautoscalers.BEHAVIOR, HorizontalPodAutoscaler, SPEC, gates)
        assert rules.faults(spec) == ([] if is_allowed else [message])
        assert rules.update(old, spec)[1] == []


def test_scaling_behavior_defaults() -> None:
    behavior = RULES.create({"behavior": {"scaleDown": {"selectPolicy": "Min"}}}).spec.behavior
    assert (behavior.scaleUp.selectPolicy, behavior.scaleUp.stabilizationWindowSeconds) == ("Max", 0)
    assert (behavior.scaleDown.selectPolicy, behavior.scaleDown.stabilizationWindowSeconds) == ("Min", None)
    assert [policy.type for policy in behavior.scaleUp.policies] == ["Pods", "Percent"]
    assert RULES.create({"behavior": {"scaleUp": {"policies": []}}}).spec.behavior.scaleUp.policies == []


def test_errors_of_a_status() -> None:
    assert RULES.update_status(RULES.create(), {"currentReplicas": -1, "desiredReplicas": -2})[1] == [
        "status.currentReplicas: Invalid value: -1: must be greater than or equal to 0",
        "status.desiredReplicas: Invalid value: -2: must be greater than or equal to 0",
    ]


@pytest.mark.parametrize(
    ("spec", "current", "targets"),
    [
        ({}, [], "cpu: <unknown>/80%"),
        ({}, [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7}}}], "cpu: 7%/80%"),
        (
            metrics(resource(**AVERAGE)),
            [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "2"}}}],
            "cpu: 2/5",
        ),
        (
            metrics(pods(**AVERAGE)),
            [{"type": "Pods", "pods": {"metric": {"name": "hits"}, "current": {"averageValue": "3"}}}],
            "3/5",
        ),
        (metrics(external(**AVERAGE)), [], "<unknown>/5 (avg)"),
        (
            metrics(object_metric("")),
            [{"type": "Object", "object": {"metric": {"name": "rate"}, "current": {"value": "4"}}}],
            "4/1",
        ),
        (metrics(container(), pods(**AVERAGE), external(**AVERAGE)), [], "cpu: <unknown>/5%, <unknown>/5 + 1 more..."),
    ],
)
def test_table_cells(spec: dict[str, Any], current: list[dict[str, Any]], targets: str) -> None:
    updated, _ = RULES.update_status(RULES.create(spec), {"currentReplicas": 2, "currentMetrics": current})
    assert RULES.cells(updated) == ["a", "Deployment/d", targets, "1", 5, 2, "0s"]


@pytest.mark.parametrize("is_enabled", [True, False])
def test_generation_counts_changes_of_the_spec_if_its_gate_is_on(is_enabled: bool) -> None:
    rules = rules_with(HPAGeneration=is_enabled)
    created = rules.create()
    changed = rules.update(created, {"maxReplicas": 7})[0]
    labeled = rules.update(changed, {"maxReplicas": 7}, labels={"a": "b"})[0]
    generations = [obj.metadata.generation for obj in (created, changed, labeled)]
    assert generations == ([1, 2, 2] if is_enabled else [0, 0, 0])


@pytest.mark.parametrize("is_enabled", [True, False])
def test_minimum_of_zero_needs_its_gate(is_enabled: bool) -> None:
    rules = rules_with(HPAScaleToZero=is_enabled)
    spec = {"minReplicas": 0, **metrics(external(type="Value", value="1"))}
    assert rules.faults(spec) == (
        [] if is_enabled else ["spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"]
    )
