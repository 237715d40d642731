"""The five status conditions of a terminating namespace, which are always all set. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from sampan.api.semantics.conditions import FALSE, TRUE, keep_transition_time
from sampan.api.types.core_v1 import NamespaceCondition
from sampan.controllers.namespace.content import DeletionResult

DISCOVERY = "NamespaceDeletionDiscoveryFailure"
PARSING = "NamespaceDeletionGroupVersionParsingFailure"
CONTENT = "NamespaceDeletionContentFailure"
REMAINING = "NamespaceContentRemaining"
FINALIZERS = "NamespaceFinalizersRemaining"


@dataclass(frozen=True, slots=True)
class ConditionText:
    reason: str
    message: str


_ALL_IS_WELL = {
    DISCOVERY: ConditionText("ResourcesDiscovered", "All resources successfully discovered"),
    PARSING: ConditionText("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    CONTENT: ConditionText("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    REMAINING: ConditionText("ContentRemoved", "All content successfully removed"),
    FINALIZERS: ConditionText("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


def failure_conditions(outcome: DeletionResult) -> dict[str, ConditionText]:
    """Return the conditions that are true."""
    result = {}
    if outcome.discovery_failure:
        result[DISCOVERY] = ConditionText("DiscoveryFailed", outcome.discovery_failure)
    if outcome.failures:
        failures = ", ".join(sorted(outcome.failures))
        message = f"Failed to delete all resource types, {len(outcome.failures)} remaining: {failures}"
        result[CONTENT] = ConditionText("ContentDeletionFailed", message)
    if outcome.remaining:
        parts = [f"{plural}.{group} has {n} resource instances" for (plural, group), n in outcome.remaining.items()]
        result[REMAINING] = ConditionText(
            "SomeResourcesRemain", f"Some resources are remaining: {', '.join(sorted(parts))}"
        )
    if outcome.finalizers:
        parts = [f"{finalizer} in {n} resource instances" for finalizer, n in outcome.finalizers.items()]
        message = f"Some content in the namespace has finalizers remaining: {', '.join(sorted(parts))}"
        result[FINALIZERS] = ConditionText("SomeFinalizersRemain", message)
    return result


def updated(
    conditions: Sequence[NamespaceCondition], outcome: DeletionResult, now: str
) -> list[NamespaceCondition] | None:
    """Return the new conditions, or None if nothing changes. lastTransitionTime changes only with the status."""
    held = failure_conditions(outcome)
    by_type = {condition.type: condition for condition in conditions}
    for type, well in _ALL_IS_WELL.items():
        status, word = (TRUE, held[type]) if type in held else (FALSE, well)
        condition = NamespaceCondition(
            type=type, status=status, lastTransitionTime=now, reason=word.reason, message=word.message
        )
        by_type[type] = keep_transition_time(by_type.get(type), condition)
    desired = list(by_type.values())
    return None if msgspec.to_builtins(desired) == msgspec.to_builtins(list(conditions)) else desired
