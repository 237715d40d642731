"""The five conditions and their words."""

from collections import Counter

from sampan.api.types.core_v1 import NamespaceCondition
from sampan.controllers.namespace.conditions import updated
from sampan.controllers.namespace.content import DeletionResult

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def shown(conditions: list[NamespaceCondition]) -> list[tuple[str, str, str, str]]:
    return [(condition.type, condition.status, condition.reason, condition.message) for condition in conditions]


def of(
    outcome: DeletionResult, before: list[NamespaceCondition] | None = None, now: str = NOW
) -> list[NamespaceCondition]:
    conditions = updated(before or [], outcome, now)
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
    assert updated(conditions, DeletionResult(), "later") is None


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
