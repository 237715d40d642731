"""What is left in a namespace, and when to look again.

The five conditions and their words.
"""

from collections import Counter
from typing import Any

import pytest

from sampan.api.types.core_v1 import NamespaceCondition, Pod, PodSpec, PodStatus
from sampan.api.types.meta_v1 import ObjectMeta, PartialObjectMetadata
from sampan.controllers import namespace
from sampan.controllers.namespace import DeletionResult, updated_conditions
from sampan.machinery.client import builtin

MAPS, PODS, DEPLOYMENTS = builtin("configmaps"), builtin("pods"), builtin("deployments", "apps")
THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def left(*finalizers: str) -> Any:
    return PartialObjectMetadata(metadata=ObjectMeta(name="x", finalizers=list(finalizers)))


def test_nothing_left() -> None:
    outcome = DeletionResult()
    outcome.note(MAPS, [], "n", 0)
    assert outcome.is_empty


def test_finalizers_are_waited_for() -> None:
    outcome = DeletionResult()
    outcome.note(MAPS, [left("a/x", "b/y"), left("a/x")], "n", 0)
    outcome.note(DEPLOYMENTS, [left("b/y")], "n", 0)
    assert outcome.remaining == Counter({("configmaps", ""): 2, ("deployments", "apps"): 1})
    assert outcome.finalizers == Counter({"a/x": 2, "b/y": 2})
    assert (outcome.estimate_s, outcome.failures, outcome.is_empty) == (15, [], False)


def test_pods_have_their_grace() -> None:
    outcome = DeletionResult()
    outcome.note(PODS, [left()], "n", 30)
    assert (outcome.estimate_s, outcome.failures, outcome.is_empty) == (30, [], False)


def test_what_stays_without_a_reason_is_a_failure() -> None:
    outcome = DeletionResult()
    outcome.note(DEPLOYMENTS, [left()], "n", 0)
    outcome.note(MAPS, [left()], "n", 0)
    assert outcome.failures == [
        "unexpected items still remain in namespace: n for gvr: apps/v1, Resource=deployments",
        "unexpected items still remain in namespace: n for gvr: /v1, Resource=configmaps",
    ]


def test_pods_go_first_and_only_what_can_be_deleted() -> None:
    rows = [MAPS, builtin("nodes"), builtin("bindings"), PODS, DEPLOYMENTS]
    first, rest = namespace.in_order(rows)
    assert first == [PODS]
    assert rest == [MAPS, DEPLOYMENTS]


@pytest.mark.parametrize(
    ("graces", "phase", "deleted_for_s", "expected"),
    [
        ([30, 5], "Running", 0, 30),
        ([30, 5], "Running", 29.9, 30),
        ([30, 5], "Running", 30, 0),
        ([30], "Succeeded", 0, 0),
        ([30], "Failed", 0, 0),
        ([None], "Running", 0, 0),
        ([], "", 0, 0),
    ],
)
def test_grace(graces: list[int | None], phase: str, deleted_for_s: float, expected: int) -> None:
    pods = [Pod(spec=PodSpec(terminationGracePeriodSeconds=grace), status=PodStatus(phase=phase)) for grace in graces]
    assert namespace.grace_left_s(pods, deleted_for_s) == expected


@pytest.mark.parametrize(
    ("estimate_s", "deleted_for_s", "expected"),
    [(15, 0, 0.2), (15, 4, 1.0), (15, 3600, 8.5), (30, 3600, 16.0), (0, 3600, 1.0)],
)
def test_looking_again_soon_at_first_then_less_often(estimate_s: int, deleted_for_s: float, expected: float) -> None:
    assert namespace.look_again_s(estimate_s, deleted_for_s) == expected


def test_finalizers_without_ours() -> None:
    assert namespace.without_finalizer(["z/z", "kubernetes", "a/a", "z/z"], "kubernetes") == ["a/a", "z/z"]


def shown(conditions: list[NamespaceCondition]) -> list[tuple[str, str, str, str]]:
    return [(condition.type, condition.status, condition.reason, condition.message) for condition in conditions]


def of(
    outcome: DeletionResult, before: list[NamespaceCondition] | None = None, now: str = NOW
) -> list[NamespaceCondition]:
    conditions = updated_conditions(before or [], outcome, now)
    assert conditions is not None
    return conditions


def test_all_is_well() -> None:
    conditions = of(DeletionResult())
    assert shown(conditions) == [
        ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        ("NamespaceContentRemaining", "False", "ContentRemoved", "All content successfully removed"),
        (
            "NamespaceFinalizersRemaining",
            "False",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ]
    assert updated_conditions(conditions, DeletionResult(), "later") is None


def test_all_is_wrong() -> None:
    outcome = DeletionResult(
        remaining=Counter({("pods", ""): 2, ("deployments", "apps"): 1}),
        finalizers=Counter({"b/y": 1, "a/x": 2}),
        discovery_failure="no answer",
        failures=["second", "first"],
    )
    assert [(reason, message) for _, status, reason, message in shown(of(outcome)) if status == "True"] == [
        ("DiscoveryFailed", "no answer"),
        ("ContentDeletionFailed", "Failed to delete all resource types, 2 remaining: first, second"),
        (
            "SomeResourcesRemain",
            "Some resources are remaining: deployments.apps has 1 resource instances, pods. has 2 resource instances",
        ),
        (
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: a/x in 2 resource instances, "
            "b/y in 1 resource instances",
        ),
    ]


def test_the_time_changes_with_the_status_alone() -> None:
    first, second = (DeletionResult(remaining=Counter({("pods", ""): number})) for number in (1, 2))
    before = of(first, now=THEN)
    later = of(second, before)
    assert {condition.lastTransitionTime for condition in later} == {THEN}
    well = of(DeletionResult(), later)
    assert [condition.type for condition in well if condition.lastTransitionTime == NOW] == [
        "NamespaceContentRemaining"
    ]


def test_conditions_of_others_stay() -> None:
    other = NamespaceCondition(type="example.com/Mine", status="True")
    assert of(DeletionResult(), [other])[0] is other
