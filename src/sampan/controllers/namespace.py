"""namespace-controller, which empties a terminating namespace and then finalizes it (`pkg/controller/namespace`).

Pure functions decide which objects are left and when to retry. They also build the five status conditions, all of which
are always set.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sampan.api.resources.resource import Resource
from sampan.api.semantics.conditions import FALSE, TRUE, keep_transition_time
from sampan.api.types.core_v1 import Namespace, NamespaceCondition, Pod
from sampan.api.values import times
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.namespace_phase import TERMINATING, namespace_name
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, DeleteParameters, Selection, resource_of
from sampan.machinery.client.discovery import Discovery
from sampan.machinery.control_loop.controller import RetryLater, Watch
from sampan.machinery.copies import copy_of

FINALIZER = "kubernetes"
Discover = Callable[[], Awaitable[tuple[Sequence[Resource], str]]]
"""Return the served resources, each in one version, and the discovery failure (empty if there was none)."""

_TOGETHER = 10
"""The number of resources that are emptied concurrently."""
_BACKGROUND_DELETION = DeleteParameters(propagation="Background")
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

    def note(self, resource: Resource, remaining_objects: Sequence[Any], namespace: str, grace_s: int) -> None:
        """Record the objects that remain after their deletion. `grace_s` is the remaining grace period of pods."""
        if not remaining_objects:
            return
        self.remaining[resource.plural, resource.group] += len(remaining_objects)
        finalizer_counts = Counter(finalizer for obj in remaining_objects for finalizer in obj.metadata.finalizers)
        self.finalizers += finalizer_counts
        if grace_s:
            self.estimate_s = max(self.estimate_s, grace_s)
        elif finalizer_counts:
            self.estimate_s = max(self.estimate_s, FINALIZER_ESTIMATE_S)
        else:
            self.failures.append(remaining_items_message(namespace, resource))


def remaining_items_message(namespace: str, resource: Resource) -> str:
    gvr = f"{resource.group}/{resource.version}, Resource={resource.plural}"
    return f"unexpected items still remain in namespace: {namespace} for gvr: {gvr}"


def split_deletable_resources(resources: Iterable[Resource]) -> tuple[list[Resource], list[Resource]]:
    """Return the pods resource and the other resources. Pods are deleted first, because they may need the other objects
    until they have terminated."""
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
    """Return the conditions whose status is True, from the errors and remaining objects of one attempt."""
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


def updated_conditions(
    conditions: Sequence[NamespaceCondition], outcome: DeletionResult, now: str
) -> list[NamespaceCondition] | None:
    """Return the new conditions, or None if nothing changes. lastTransitionTime changes only with the status."""
    owned_conditions = failure_conditions(outcome)
    by_type = {condition.type: condition for condition in conditions}
    for type, well in _ALL_IS_WELL.items():
        status, word = (TRUE, owned_conditions[type]) if type in owned_conditions else (FALSE, well)
        condition = NamespaceCondition(
            type=type, status=status, lastTransitionTime=now, reason=word.reason, message=word.message
        )
        by_type[type] = keep_transition_time(by_type.get(type), condition)
    desired = list(by_type.values())
    return None if msgspec.to_builtins(desired) == msgspec.to_builtins(list(conditions)) else desired


def _terminating_namespace_keys(namespace: Any) -> Iterable[Hashable]:
    return namespace_name(namespace) if namespace.metadata.deletionTimestamp is not None else ()


class NamespaceController:
    name = "namespace-controller"

    def __init__(self, *, client: Client, discover: Discover, clock: Clock, settle_s: float = 0) -> None:
        """Create the controller.

        `settle_s` is the delay after the deletion of a namespace. If several API servers share a store, one of them may
        briefly still admit objects into it.
        """
        self._client, self._discover, self._clock = client, discover, clock
        self._namespaces, self._pods = client.for_kind(Namespace), client.for_kind(Pod)
        self._settle_s = settle_s
        self.watches = (Watch(resource_of(Namespace), _terminating_namespace_keys),)

    async def reconcile(self, key: str) -> float | None:
        try:
            namespace = await self._namespaces.get(key)
            if namespace.metadata.deletionTimestamp is None or not namespace.spec.finalizers:
                return None
            deleted_for_s = self._clock.now() - times.parse_time(namespace.metadata.deletionTimestamp)
            if deleted_for_s < self._settle_s:
                return self._settle_s - deleted_for_s
            namespace = await self._mark(namespace)
            outcome = await self._empty(key, deleted_for_s)
            namespace = await self._write_conditions(namespace, outcome)
            if not outcome.is_empty:
                return self._look_again_s(outcome, deleted_for_s)
            await self._finalize(namespace)
        except errors.NotFound:
            return None
        return None

    async def _mark(self, namespace: Namespace) -> Namespace:
        if namespace.status.phase == TERMINATING:
            return namespace
        changed = copy_of(namespace)
        changed.status.phase = TERMINATING
        return await self._namespaces.update_status(changed)

    async def _empty(self, namespace: str, deleted_for_s: float) -> DeletionResult:
        resources, failure = await self._discover()
        outcome = DeletionResult(discovery_failure=failure)
        first, remainder = split_deletable_resources(resources)
        for resource in first:
            pods = (await self._pods.list(Selection(namespace=namespace))).items
            grace_s = grace_left_s(pods, deleted_for_s)
            await self._remove(resource, namespace, outcome, grace_s)
        if not outcome.remaining:
            await self._remove_all(remainder, namespace, outcome)
        return outcome

    async def _remove_all(self, resources: Sequence[Resource], namespace: str, outcome: DeletionResult) -> None:
        limit = asyncio.Semaphore(_TOGETHER)

        async def remove(resource: Resource) -> None:
            async with limit:
                await self._remove(resource, namespace, outcome, 0)

        async with asyncio.TaskGroup() as group:
            for resource in resources:
                group.create_task(remove(resource))

    async def _remove(self, resource: Resource, namespace: str, outcome: DeletionResult, grace_s: int) -> None:
        """Delete all objects of a resource and record errors in the outcome."""
        objects, selection = self._client.metadata(resource), Selection(namespace=namespace)
        try:
            present = (await objects.list(selection)).items
            if present:
                await self._delete(resource, present, namespace)
                outcome.note(resource, (await objects.list(selection)).items, namespace, grace_s)
        except (errors.NotFound, errors.MethodNotSupported):
            return  # The resource is no longer served, or does not support the request.
        except errors.ApiError as error:
            outcome.fail(str(error))

    async def _delete(self, resource: Resource, items: Sequence[Any], namespace: str) -> None:
        objects = self._client.metadata(resource)
        if "deletecollection" in resource.verbs:
            return await objects.delete_collection(Selection(namespace=namespace), options=_BACKGROUND_DELETION)
        for obj in items:
            try:
                await objects.delete(obj.metadata.name, namespace, options=_BACKGROUND_DELETION)
            except errors.NotFound:
                continue

    async def _write_conditions(self, namespace: Namespace, outcome: DeletionResult) -> Namespace:
        desired = updated_conditions(namespace.status.conditions, outcome, times.format_time(self._clock.now()))
        if desired is None:
            return namespace
        changed = copy_of(namespace)
        changed.status.conditions = desired
        return await self._namespaces.update_status(changed)

    def _look_again_s(self, outcome: DeletionResult, deleted_for_s: float) -> float:
        if reason := outcome.discovery_failure or "; ".join(outcome.failures):
            message = f"cannot delete the content of the namespace: {reason}"
            is_trouble = outcome.has_failed or bool(outcome.discovery_failure)
            raise errors.unexpected_error(message) if is_trouble else RetryLater(message)
        return look_again_s(outcome.estimate_s, deleted_for_s)

    async def _finalize(self, namespace: Namespace) -> None:
        changed = copy_of(namespace)
        changed.spec.finalizers = without_finalizer(namespace.spec.finalizers, FINALIZER)
        if changed.spec.finalizers != namespace.spec.finalizers:
            await self._namespaces.update(changed, subresource="finalize")


def make(context: ControllerContext) -> NamespaceController:
    client = context.client
    return context.build(
        NamespaceController,
        client=client,
        discover=Discovery(client).discover_preferred,
        settle_s=context.config.namespace_settle_s,
    )
