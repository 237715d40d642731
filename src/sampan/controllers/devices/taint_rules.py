"""DeviceTaintRules: which devices they taint, when the consumers of a device must be evicted, and the condition
EvictionInProgress that reports it. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

from sampan.api.semantics.conditions import FALSE, TRUE, find_condition
from sampan.api.semantics.taints import NO_EXECUTE, tolerates
from sampan.api.types import resource_v1, resource_v1beta2
from sampan.api.types.meta_v1 import Condition
from sampan.api.types.resource_v1 import DeviceRequestAllocationResult, DeviceToleration
from sampan.api.values import times

AnyTaintRule = resource_v1.DeviceTaintRule | resource_v1beta2.DeviceTaintRule

IN_PROGRESS: Final = "EvictionInProgress"
NO_EFFECT: Final = "None"
STATUS_PERIOD_S: Final = 10.0
"""The minimum number of seconds between two updates of the condition of an unchanged rule."""


class TrackedTaint(NamedTuple):
    """A taint of a device, from its ResourceSlice or from a rule."""

    key: str
    value: str
    effect: str
    added: str | None
    rule: str = ""
    """The UID of the rule."""


class Eviction(NamedTuple):
    at: float
    """When the consumers are evicted."""
    rules: frozenset[str]
    """The UIDs of the rules that are a reason for it."""


class RuleCounts(NamedTuple):
    """What a rule would cause, or causes."""

    pods: int = 0
    """Pods that are not evicted yet."""
    namespaces: int = 0
    published: int = 0
    allocated: int = 0


def taint_of(rule: AnyTaintRule) -> TrackedTaint:
    taint = rule.spec.taint
    return TrackedTaint(taint.key, taint.value, taint.effect, taint.timeAdded, rule.metadata.uid)


def taints_of(device: resource_v1.Device) -> list[TrackedTaint]:
    return [TrackedTaint(taint.key, taint.value, taint.effect, taint.timeAdded) for taint in device.taints]


def matches(rule: AnyTaintRule, driver: str, pool: str, device: str) -> bool:
    selector = rule.spec.deviceSelector
    return selector is not None and all(
        expected is None or expected == actual
        for expected, actual in ((selector.driver, driver), (selector.pool, pool), (selector.device, device))
    )


def by_selector(rule: AnyTaintRule) -> Iterable[Hashable]:
    """Index rules with the effect NoExecute by their device selector, in the form of `selectors_of`."""
    selector = rule.spec.deviceSelector
    if selector is None or rule.spec.taint.effect != NO_EXECUTE:
        return ()
    return ((selector.driver, selector.pool, selector.device),)


def selectors_of(driver: str, pool: str, device: str) -> Iterable[Hashable]:
    """Return the keys of `by_selector` for all rules that select the device."""
    return product((None, driver), (None, pool), (None, device))


def compute_eviction(taints: Iterable[TrackedTaint], allocated: DeviceRequestAllocationResult) -> Eviction | None:
    """Return when consumers of the device must be evicted, or None if all NoExecute taints are tolerated."""
    return join_evictions(_compute_taint_eviction(taint, allocated.tolerations) for taint in taints)


def join_evictions(evictions: Iterable[Eviction | None]) -> Eviction | None:
    """Return the earliest eviction, with the rules of all."""
    due = [eviction for eviction in evictions if eviction is not None]
    if not due:
        return None
    rules = frozenset(rule for eviction in due for rule in eviction.rules)
    return Eviction(min(eviction.at for eviction in due), rules)


def _compute_taint_eviction(taint: TrackedTaint, tolerations: Sequence[DeviceToleration]) -> Eviction | None:
    if taint.effect != NO_EXECUTE or taint.added is None:
        return None
    allowed = [entry.tolerationSeconds for entry in tolerations if _is_tolerated(taint, entry)]
    if None in allowed:
        return None
    seconds = [max(entry, 0) for entry in allowed if entry is not None]
    rules = frozenset((taint.rule,)) if taint.rule else frozenset[str]()
    return Eviction(times.parse_time(taint.added) + min(seconds, default=0), rules)


def _is_tolerated(taint: TrackedTaint, toleration: DeviceToleration) -> bool:
    return toleration.effect == NO_EXECUTE and tolerates(toleration, taint)


# -- condition -------------------------------------------------------------------------------------------------------


def find_report(rule: AnyTaintRule) -> Condition | None:
    """Return the condition of the rule, or None if it has none for its present spec."""
    condition = find_condition(rule.status.conditions, IN_PROGRESS)
    is_current = condition is not None and condition.observedGeneration == rule.metadata.generation
    return condition if is_current else None


def compute_condition(rule: AnyTaintRule, counts: RuleCounts, evicted: int) -> Condition:
    """Return the condition without its time. `evicted` counts the pods that were evicted because of the rule since the
    controller has started."""
    effect, status, message = rule.spec.taint.effect, FALSE, ""
    if effect == NO_EXECUTE:
        reason = "Completed" if evicted else "NotStarted"
        if counts.pods:
            reason, status = "PodsPendingEviction", TRUE
            verb = "needs" if counts.pods == 1 else "need"
            message = f"{_count(counts.pods, 'pod')} {verb} to be evicted in {_namespaces(counts.namespaces)}."
    elif effect == NO_EFFECT:
        reason, message = "NoEffect", _format_simulation(counts)
    else:
        reason, message = "OtherEffect", "Eviction only happens for the NoExecute effect."
    if evicted:
        message += f"{' ' if message else ''}{_count(evicted, 'pod')} evicted since starting the controller."
    return Condition(
        type=IN_PROGRESS,
        status=status,
        reason=reason,
        message=message,
        observedGeneration=rule.metadata.generation,
    )


def is_same_report(before: Condition | None, after: Condition) -> bool:
    """Whether the conditions differ in nothing but their time."""

    def content(condition: Condition) -> tuple[Any, ...]:
        return condition.status, condition.reason, condition.message, condition.observedGeneration

    return before is not None and content(before) == content(after)


def _format_simulation(counts: RuleCounts) -> str:
    return (
        f"{_count(counts.published, 'published device')} selected. "
        f"{_count(counts.allocated, 'allocated device')} selected. "
        f"{_count(counts.pods, 'pod')} would be evicted in {_namespaces(counts.namespaces)} if the effect was "
        "NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _namespaces(number: int) -> str:
    return "1 namespace" if number == 1 else f"{number} different namespaces"
