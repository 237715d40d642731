"""PodDisruptionBudgets: rules that the golden replay does not cover."""

from typing import Any

import pytest

from sampan.api.types.policy_v1 import PodDisruptionBudget
from sampan.api.values.times import format_time
from sampan.apiserver.registry.kinds import poddisruptionbudgets
from tests.apiserver.cluster import Cluster, run_in_cluster
from tests.apiserver.registry.kind_rules import NOW, Rules

RULES = Rules(poddisruptionbudgets.BEHAVIOR, PodDisruptionBudget, {"minAvailable": 1})
EMPTY_SELECTOR_LABEL = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"
INVALID_SELECTOR = {"selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["no good"]}]}}
CONDITION = {"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": format_time(NOW)}


@pytest.mark.parametrize(
    ("selector", "kept"),
    [
        ({"matchLabels": {"a": "b", EMPTY_SELECTOR_LABEL: "x"}}, {"a": "b"}),
        (
            {
                "matchExpressions": [
                    {"key": EMPTY_SELECTOR_LABEL, "operator": "Exists"},
                    {"key": "a", "operator": "Exists"},
                ]
            },
            ["a"],
        ),
        ({"matchExpressions": [{"key": EMPTY_SELECTOR_LABEL, "operator": "Exists"}]}, [EMPTY_SELECTOR_LABEL]),
        ({"matchExpressions": [{"key": EMPTY_SELECTOR_LABEL, "operator": "DoesNotExist"}]}, [EMPTY_SELECTOR_LABEL]),
    ],
)
def test_v1beta1_empty_selector_label_is_removed_from_other_selectors(selector: dict[str, Any], kept: Any) -> None:
    labels = RULES.create({"selector": selector}).spec.selector
    assert (labels.matchLabels or [term.key for term in labels.matchExpressions]) == kept


def test_invalid_value_in_stored_selector_is_allowed_on_update() -> None:
    assert len(RULES.faults(INVALID_SELECTOR)) == 1
    assert RULES.update(RULES.create(INVALID_SELECTOR), {**INVALID_SELECTOR, "minAvailable": 2})[1] == []


def test_generation_counts_spec_changes_and_update_requires_resource_version() -> None:
    old = RULES.create()
    new, _ = RULES.update(old, {"minAvailable": "50%"})
    assert (old.metadata.generation, new.metadata.generation) == (1, 2)
    assert not poddisruptionbudgets.BEHAVIOR.strategy.allow_unconditional_update


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ({}, []),
        ({"status": "Odd"}, ['status: Unsupported value: "Odd": supported values: "False", "True", "Unknown"']),
        ({"reason": ""}, ["reason: Required value"]),
        ({"reason": "no good"}, ['reason: Invalid value: "no good": a condition reason must start with alphabetic']),
        ({"lastTransitionTime": None}, ["lastTransitionTime: Required value"]),
        ({"observedGeneration": -1}, ["observedGeneration: Invalid value: -1: must be greater than or equal to zero"]),
        ({"reason": "R" * 1025}, ["reason: Too long: may not be more than 1024 bytes"]),
        ({"message": "m" * 32769}, ["message: Too long: may not be more than 32768 bytes"]),
    ],
)
def test_errors_of_conditions(change: dict[str, Any], faults: list[str]) -> None:
    errors = RULES.update_status(RULES.create(), {"conditions": [{**CONDITION, **change}]})[1]
    assert [text[: len(f"status.conditions[0].{fault}")] for text, fault in zip(errors, faults, strict=True)] == [
        f"status.conditions[0].{fault}" for fault in faults
    ]


def test_a_repeated_condition_is_reported_once() -> None:
    errors = RULES.update_status(RULES.create(), {"conditions": [CONDITION, CONDITION]})[1]
    assert errors == ['status.conditions[1].type: Duplicate value: "A"']


def test_metadata_errors_are_reported_only_without_spec_errors() -> None:
    async def work(cluster: Cluster) -> None:
        path = "/apis/policy/v1/namespaces/ns/poddisruptionbudgets"
        both = {"metadata": {"name": "A_b", "labels": {"-": ""}}, "spec": {"minAvailable": -1}}
        first = (await cluster.send("POST", path, both)).json
        assert [cause["field"] for cause in first["details"]["causes"]] == ["spec.minAvailable"]
        second = (await cluster.send("POST", path, {**both, "spec": {}})).json
        assert [cause["field"] for cause in second["details"]["causes"]] == ["metadata.labels"]
        await cluster.make(path, {"metadata": {"name": "A_b"}, "spec": {}})

    run_in_cluster(work)


def test_table_cells() -> None:
    updated, _ = RULES.update_status(RULES.create(), {"disruptionsAllowed": 3})
    assert RULES.cells(updated) == ["a", "1", "N/A", 3, "0s"]
