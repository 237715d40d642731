"""The content that is left in a terminating namespace. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sampan.api.resource import Resource

FINALIZER_ESTIMATE_S = 15
"""The seconds that finalizers are assumed to need."""
_SOONEST_S = 0.2
_FINISHED = ("Succeeded", "Failed")


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
