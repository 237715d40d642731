"""The status of a PodDisruptionBudget, and stale DisruptionTarget conditions of pods. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sampan.api.semantics.conditions import FALSE, TRUE, find_condition, with_condition
from sampan.api.semantics.pods import is_ready
from sampan.api.types.core_v1 import Pod, PodCondition
from sampan.api.types.meta_v1 import Condition
from sampan.api.types.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from sampan.api.values import times
from sampan.api.values.int_or_string import scale_int_or_percent
from sampan.machinery.copies import copy_of

EXPIRY_S = 120.0
"""Seconds for which a pod whose eviction was granted counts as disrupted without being deleted, and after which an
unfulfilled DisruptionTarget condition is reset.
"""
ALLOWED, TARGET = "DisruptionAllowed", "DisruptionTarget"
SUFFICIENT, INSUFFICIENT, SYNC_FAILED = "SufficientPods", "InsufficientPods", "SyncFailed"
_TERMINATION_BY_KUBELET = "TerminationByKubelet"
_TERMINAL_PHASES = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class ExpectedPods:
    pods: int
    healthy: int


def needs_scale(spec: PodDisruptionBudgetSpec) -> bool:
    """Whether the desired number of pods depends on the scale of their controllers."""
    return spec.maxUnavailable is not None or isinstance(spec.minAvailable, str)


def expectation(spec: PodDisruptionBudgetSpec, pods: int, scale: int) -> ExpectedPods:
    """Return the expected and desired healthy pods. `scale` is the desired number of pods, `pods` the actual one."""
    if spec.maxUnavailable is not None:
        return ExpectedPods(scale, max(0, scale - scale_int_or_percent(spec.maxUnavailable, scale, round_up=True)))
    if isinstance(spec.minAvailable, int):
        return ExpectedPods(pods, spec.minAvailable)
    if spec.minAvailable is not None:
        return ExpectedPods(scale, scale_int_or_percent(spec.minAvailable, scale, round_up=True))
    return ExpectedPods(0, 0)


@dataclass(frozen=True, slots=True)
class DisruptedPods:
    """The pods whose eviction was granted and that are not being deleted yet."""

    since: Mapping[str, str]
    expired: Sequence[Pod]
    """Pods that were not deleted in time."""
    again_s: float | None
    """Seconds until the next of these pods expires."""


def find_disrupted_pods(budget: PodDisruptionBudget, pods: Sequence[Pod], now: float) -> DisruptedPods:
    granted = budget.status.disruptedPods
    since: dict[str, str] = {}
    expired, waits_s = [], []
    for pod in pods if granted else ():
        granted_at = granted.get(pod.metadata.name)
        if granted_at is None or pod.metadata.deletionTimestamp is not None:
            continue
        remaining_s = times.parse_time(granted_at) + EXPIRY_S - now
        if remaining_s < 0:
            expired.append(pod)
        else:
            since[pod.metadata.name] = granted_at
            waits_s.append(remaining_s)
    return DisruptedPods(since, expired, min(waits_s) + 0.001 if waits_s else None)


def count_healthy_pods(pods: Sequence[Pod], since: Mapping[str, str], now: float) -> int:
    return sum(_is_healthy(pod, since.get(pod.metadata.name), now) for pod in pods)


def _is_healthy(pod: Pod, granted: str | None, now: float) -> bool:
    if pod.metadata.deletionTimestamp is not None:
        return False
    if granted is not None and times.parse_time(granted) + EXPIRY_S > now:
        return False
    return is_ready(pod)


def compute_status(
    budget: PodDisruptionBudget, expected: ExpectedPods, current: int, since: Mapping[str, str], now: str
) -> PodDisruptionBudgetStatus:
    """Return the new status. If no pods are expected, no disruption is allowed, so that new pods are not evicted before
    they are counted."""
    allowed = max(0, current - expected.healthy) if expected.pods > 0 else 0
    generation = budget.metadata.generation
    reason = SUFFICIENT if allowed else INSUFFICIENT
    return PodDisruptionBudgetStatus(
        observedGeneration=generation,
        disruptedPods=dict(since),
        disruptionsAllowed=allowed,
        currentHealthy=current,
        desiredHealthy=expected.healthy,
        expectedPods=expected.pods,
        conditions=with_condition(budget.status.conditions, _condition(bool(allowed), reason, "", generation, now)),
    )


def make_failed_status(budget: PodDisruptionBudget, why: str, now: str) -> PodDisruptionBudgetStatus:
    """Return the status after a failed sync, which allows no disruption."""
    result = copy_of(budget).status
    result.disruptionsAllowed = 0
    condition = _condition(False, SYNC_FAILED, why, budget.status.observedGeneration, now)
    result.conditions = with_condition(budget.status.conditions, condition)
    return result


def _condition(value: bool, reason: str, message: str, generation: int, now: str) -> Condition:
    return Condition(
        type=ALLOWED,
        status=TRUE if value else FALSE,
        reason=reason,
        message=message,
        observedGeneration=generation,
        lastTransitionTime=now,
    )


def stale_in_s(pod: Pod, now: float) -> float | None:
    """Return the seconds until the pod's DisruptionTarget condition must be reset: 0 for now, None for never."""
    if pod.metadata.deletionTimestamp is not None or pod.status.phase in _TERMINAL_PHASES:
        return None
    target = find_condition(pod.status.conditions, TARGET)
    if target is None or target.status != "True" or target.reason == _TERMINATION_BY_KUBELET:
        return None
    since = times.parse_time(target.lastTransitionTime) if target.lastTransitionTime else 0.0
    return max(0.0, since + EXPIRY_S - now)


def without_disruption_target(pod: Pod, now: str) -> Pod:
    changed = copy_of(pod)
    generation = pod.metadata.generation
    cleared = PodCondition(type=TARGET, status="False", lastTransitionTime=now, observedGeneration=generation)
    changed.status.conditions = [
        cleared if condition.type == TARGET else condition for condition in changed.status.conditions
    ]
    return changed
