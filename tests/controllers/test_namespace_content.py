"""Remaining content of a deleted namespace, delays of retries, and the five conditions with their messages."""

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


def remaining_object(*finalizers: str) -> Any:
    return PartialObjectMetadata(metadata=ObjectMeta(name="x", finalizers=list(finalizers)))


def test_result_without_remaining_content_is_empty() -> None:
    outcome = DeletionResult()
    outcome.note(MAPS, [], "n", 0)
    assert outcome.is_empty


def test_remaining_finalizers_are_counted() -> None:
    outcome = DeletionResult()
    outcome.note(MAPS, [remaining_object("a/x", "b/y"), remaining_object("a/x")], "n", 0)
    outcome.note(DEPLOYMENTS, [remaining_object("b/y")], "n", 0)
    assert outcome.remaining == Counter({("configmaps", ""): 2, ("deployments", "apps"): 1})
    assert outcome.finalizers == Counter({"a/x": 2, "b/y": 2})
    assert (outcome.estimate_s, outcome.failures, outcome.is_empty) == (15, [], False)


def test_remaining_pods_within_their_grace_period_are_no_failure() -> None:
    outcome = DeletionResult()
    outcome.note(PODS, [remaining_object()], "n", 30)
    assert (outcome.estimate_s, outcome.failures, outcome.is_empty) == (30, [], False)


def test_remaining_objects_without_finalizers_are_a_failure() -> None:
    outcome = DeletionResult()
    outcome.note(DEPLOYMENTS, [remaining_object()], "n", 0)
    outcome.note(MAPS, [remaining_object()], "n", 0)
    assert outcome.failures == [
        "unexpected items still remain in namespace: n for gvr: apps/v1, Resource=deployments",
        "unexpected items still remain in namespace: n for gvr: /v1, Resource=configmaps",
    ]


def test_pods_are_deleted_first_and_undeletable_resources_skipped() -> None:
    rows = [MAPS, builtin("nodes"), builtin("bindings"), PODS, DEPLOYMENTS]
    first, other_resources = namespace.split_deletable_resources(rows)
    assert first == [PODS]
    assert other_resources == [MAPS, DEPLOYMENTS]


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
def test_remaining_grace_period_of_pods(
    graces: list[int | None], phase: str, deleted_for_s: float, expected: int
) -> None:
    pods = [Pod(spec=PodSpec(terminationGracePeriodSeconds=grace), status=PodStatus(phase=phase)) for grace in graces]
    assert namespace.grace_left_s(pods, deleted_for_s) == expected


@pytest.mark.parametrize(
    ("estimate_s", "deleted_for_s", "expected"),
    [(15, 0, 0.2), (15, 4, 1.0), (15, 3600, 8.5), (30, 3600, 16.0), (0, 3600, 1.0)],
)
def test_retry_delay_grows_with_the_time_since_deletion(estimate_s: int, deleted_for_s: float, expected: float) -> None:
    assert namespace.look_again_s(estimate_s, deleted_for_s) == expected


def test_without_finalizer_sorts_and_removes_duplicates() -> None:
    assert namespace.without_finalizer(["z/z", "kubernetes", "a/a", "z/z"], "kubernetes") == ["a/a", "z/z"]


def summary(conditions: list[NamespaceCondition]) -> list[tuple[str, str, str, str]]:
    return [(condition.type, condition.status, condition.reason, condition.message) for condition in conditions]


def conditions_of(
    outcome: DeletionResult, before: list[NamespaceCondition] | None = None, now: str = NOW
) -> list[NamespaceCondition]:
    conditions = updated_conditions(before or [], outcome, now)
    assert conditions is not None
    return conditions


def test_conditions_without_problems() -> None:
    conditions = conditions_of(DeletionResult())
    assert summary(conditions) == [
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


def test_conditions_with_all_problems() -> None:
    outcome = DeletionResult(
        remaining=Counter({("pods", ""): 2, ("deployments", "apps"): 1}),
        finalizers=Counter({"b/y": 1, "a/x": 2}),
        discovery_failure="no answer",
        failures=["second", "first"],
    )
    assert [
        (reason, message) for _, status, reason, message in summary(conditions_of(outcome)) if status == "True"
    ] == [
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


def test_transition_time_changes_only_with_the_condition_status() -> None:
    first, second = (DeletionResult(remaining=Counter({("pods", ""): number})) for number in (1, 2))
    before = conditions_of(first, now=THEN)
    later = conditions_of(second, before)
    assert {condition.lastTransitionTime for condition in later} == {THEN}
    resolved = conditions_of(DeletionResult(), later)
    assert [condition.type for condition in resolved if condition.lastTransitionTime == NOW] == [
        "NamespaceContentRemaining"
    ]


def test_conditions_of_unknown_types_are_kept() -> None:
    other = NamespaceCondition(type="example.com/Mine", status="True")
    assert conditions_of(DeletionResult(), [other])[0] is other
