"""The content that is left in a terminating namespace, and the five status conditions that report it, which are always
all set. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sampan.api.resource import Resource
from sampan.api.semantics.conditions import FALSE, TRUE, keep_transition_time
from sampan.api.types.core_v1 import NamespaceCondition

FINALIZER_ESTIMATE_S = 15
"""The seconds that finalizers are assumed to need."""
_SOONEST_S = 0.2
_FINISHED = ("Succeeded", "Failed")
DISCOVERY = "NamespaceDeletionDiscoveryFailure"
PARSING = "NamespaceDeletionGroupVersionParsingFailure"
CONTENT = "NamespaceDeletionContentFailure"
REMAINING = "NamespaceContentRemaining"
FINALIZERS = "NamespaceFinalizersRemaining"


@dataclass(slots=True)
class DeletionResult:
    """The result of one attempt to empty a namespace."""

    remaining: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of remaining objects by plural and group."""
    finalizers: Counter[str] = field(default_factory=Counter)
    """Number of remaining objects by finalizer."""
    discovery_failure: str = ""
    failures: list[str] = field(default_factory=list)
    """Errors of individual resources."""
    has_failed: bool = False
    """Whether a request failed. Otherwise `failures` only lists objects that still exist."""
    estimate_s: int = 0
    """Estimated seconds until the remaining objects are gone."""

    @property
    def is_empty(self) -> bool:
        return not (self.remaining or self.failures or self.discovery_failure)

    def fail(self, message: str) -> None:
        """Record that a request for the objects of a resource failed."""
        self.failures.append(message)
        self.has_failed = True

    def note(self, resource: Resource, left: Sequence[Any], namespace: str, grace_s: int) -> None:
        """Record the objects that remain after their deletion. `grace_s` is the remaining grace period of pods."""
        if not left:
            return
        self.remaining[resource.plural, resource.group] += len(left)
        held = Counter(finalizer for obj in left for finalizer in obj.metadata.finalizers)
        self.finalizers += held
        if grace_s:
            self.estimate_s = max(self.estimate_s, grace_s)
        elif held:
            self.estimate_s = max(self.estimate_s, FINALIZER_ESTIMATE_S)
        else:
            self.failures.append(unexpected(namespace, resource))


def unexpected(namespace: str, resource: Resource) -> str:
    gvr = f"{resource.group}/{resource.version}, Resource={resource.plural}"
    return f"unexpected items still remain in namespace: {namespace} for gvr: {gvr}"


def in_order(resources: Iterable[Resource]) -> tuple[list[Resource], list[Resource]]:
    """Return the pods resource, which must be emptied first as pods may need other objects, and the rest."""
    deletable = [
        resource for resource in resources if resource.namespaced and {"delete", "list"} <= set(resource.verbs)
    ]
    first = [resource for resource in deletable if (resource.group, resource.plural) == ("", "pods")]
    return first, [resource for resource in deletable if resource not in first]


def grace_left_s(pods: Iterable[Any], deleted_for_s: float) -> int:
    """Return the longest grace period of the running pods, or 0 once it has passed."""
    graces = [pod.spec.terminationGracePeriodSeconds or 0 for pod in pods if pod.status.phase not in _FINISHED]
    longest = max(graces, default=0)
    return 0 if deleted_for_s >= longest else int(longest)


def look_again_s(estimate_s: int, deleted_for_s: float) -> float:
    """Return the seconds until the next attempt: a quarter of the time since deletion, within bounds."""
    return max(_SOONEST_S, min(deleted_for_s / 4, estimate_s / 2 + 1))


def without_finalizer(finalizers: Iterable[str], ours: str) -> list[str]:
    return sorted({finalizer for finalizer in finalizers if finalizer != ours})


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
