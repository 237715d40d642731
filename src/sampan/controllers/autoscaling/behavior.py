"""The scaling behavior of an autoscaler: stabilization windows, and limits by count and by scaling policies. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscalerBehavior, HPAScalingPolicy, HPAScalingRules

_LOWEST = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_HIGHEST = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_READY = "ReadyForNewScale", "recommended size matches current size"


class StabilizedReplicas(NamedTuple):
    replicas: int
    reason: str
    message: str


class _Recommendation(NamedTuple):
    time: float
    replicas: int


@dataclass(slots=True)
class Recommendations:
    """The recent recommendations. `window_s` is the downscale stabilization window unless a behavior sets one."""

    window_s: float
    recent: list[_Recommendation] = field(default_factory=list)

    def seed(self, current: int, now: float) -> None:
        """Seed the window with the current replicas the first time that the autoscaler is evaluated."""
        if not self.recent:
            self.recent.append(_Recommendation(now, current))

    def stabilize(self, desired: int, now: float) -> StabilizedReplicas:
        """Stabilize without a behavior: return the highest recommendation in the window."""
        cutoff = now - self.window_s
        replicas = max(
            (desired, *(recommendation.replicas for recommendation in self.recent if recommendation.time >= cutoff))
        )
        self._record(desired, now, cutoff)
        return StabilizedReplicas(replicas, *(_READY if replicas == desired else _HIGHEST))

    def stabilize_with_behavior(
        self, behavior: HorizontalPodAutoscalerBehavior, current: int, desired: int, now: float
    ) -> StabilizedReplicas:
        """Stabilize with a behavior.

        Scale up to no more than the lowest recommendation in the scale-up window, and scale down to no less than the
        highest recommendation in the scale-down window.
        """
        up, down = now - _window_s(behavior.scaleUp, 0), now - _window_s(behavior.scaleDown, self.window_s)
        lowest = min(
            (desired, *(recommendation.replicas for recommendation in self.recent if recommendation.time > up))
        )
        highest = max(
            (desired, *(recommendation.replicas for recommendation in self.recent if recommendation.time > down))
        )
        self._record(desired, now, min(up, down))
        replicas = min(max(current, lowest), highest)
        if replicas == desired:
            return StabilizedReplicas(replicas, *_READY)
        return StabilizedReplicas(replicas, *(_LOWEST if desired >= current else _HIGHEST))

    def _record(self, desired: int, now: float, cutoff: float) -> None:
        self.recent = [recommendation for recommendation in self.recent if recommendation.time >= cutoff]
        self.recent.append(_Recommendation(now, desired))


def _window_s(rules: HPAScalingRules | None, otherwise: float) -> float:
    window_s = rules.stabilizationWindowSeconds if rules is not None else None
    return otherwise if window_s is None else window_s


_FASTEST, _ALWAYS_ALLOWED = 2, 4
"""Without a behavior, one scaling step may at most double the replicas, but may always scale up to four."""


class LimitedReplicas(NamedTuple):
    replicas: int
    reason: str
    message: str


_DESIRED_WITHIN_RANGE = "DesiredWithinRange", "the desired count is within the acceptable range"
_TOO_MANY_REPLICAS = "TooManyReplicas", "the desired replica count is more than the maximum replica count"
_TOO_FEW_REPLICAS = "TooFewReplicas", "the desired replica count is less than the minimum replica count"
_SCALE_UP_LIMIT = "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"
_SCALE_DOWN_LIMIT = "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"


class ScaleEvent(NamedTuple):
    time: float
    replicas: int
    """The number of replicas that were added or removed; never negative."""


@dataclass(slots=True)
class ScaleEvents:
    """The recent scaling events, against which the periods of scaling policies are evaluated."""

    up: list[ScaleEvent] = field(default_factory=list)
    down: list[ScaleEvent] = field(default_factory=list)

    def note(self, behavior: HorizontalPodAutoscalerBehavior | None, before: int, after: int, now: float) -> None:
        """Record a scaling event. Nothing is recorded without a behavior, since only its policies read the events."""
        if behavior is None:
            return
        history, rules = (self.up, behavior.scaleUp) if after > before else (self.down, behavior.scaleDown)
        longest_s = max((policy.periodSeconds for policy in _policies(rules)), default=0)
        history[:] = [change for change in history if change.time >= now - longest_s]
        history.append(ScaleEvent(now, abs(after - before)))

    def replicas_at_start(self, current: int, period_s: int, now: float) -> int:
        """Return the number of replicas `period_s` seconds ago, from the current number and the scaling events
        since."""
        return current - _sum_changes(self.up, period_s, now) + _sum_changes(self.down, period_s, now)


def limit_replicas(current: int, desired: int, minimum: int, maximum: int) -> LimitedReplicas:
    fastest = max(_FASTEST * current, _ALWAYS_ALLOWED)
    limit, condition = (fastest, _SCALE_UP_LIMIT) if maximum > fastest else (maximum, _TOO_MANY_REPLICAS)
    if desired < minimum:
        return LimitedReplicas(minimum, *_TOO_FEW_REPLICAS)
    return LimitedReplicas(limit, *condition) if desired > limit else LimitedReplicas(desired, *_DESIRED_WITHIN_RANGE)


def limit_replicas_with_behavior(
    behavior: HorizontalPodAutoscalerBehavior,
    changes: ScaleEvents,
    *,
    current: int,
    desired: int,
    minimum: int,
    maximum: int,
    now: float,
) -> LimitedReplicas:
    if desired > current:
        fastest = max(_compute_scale_up_limit(behavior.scaleUp, changes, current, now), current)
        limit, condition = (fastest, _SCALE_UP_LIMIT) if maximum > fastest else (maximum, _TOO_MANY_REPLICAS)
        if desired > limit:
            return LimitedReplicas(limit, *condition)
    elif desired < current:
        fastest = min(_compute_scale_down_limit(behavior.scaleDown, changes, current, now), current)
        limit, condition = (fastest, _SCALE_DOWN_LIMIT) if minimum < fastest else (minimum, _TOO_FEW_REPLICAS)
        if desired < limit:
            return LimitedReplicas(limit, *condition)
    return LimitedReplicas(desired, *_DESIRED_WITHIN_RANGE)


def _compute_scale_up_limit(rules: HPAScalingRules | None, changes: ScaleEvents, current: int, now: float) -> int:
    def compute_max_replicas(policy: HPAScalingPolicy) -> int:
        start = changes.replicas_at_start(current, policy.periodSeconds, now)
        if policy.type == "Pods":
            return start + policy.value
        return math.ceil(start * (1 + policy.value / 100))

    return _select_limit(rules, current, compute_max_replicas, min_change=min, max_change=max)


def _compute_scale_down_limit(rules: HPAScalingRules | None, changes: ScaleEvents, current: int, now: float) -> int:
    def compute_min_replicas(policy: HPAScalingPolicy) -> int:
        start = changes.replicas_at_start(current, policy.periodSeconds, now)
        if policy.type == "Pods":
            return start - policy.value
        return int(start * (1 - policy.value / 100))

    return _select_limit(rules, current, compute_min_replicas, min_change=max, max_change=min)


def _select_limit(
    rules: HPAScalingRules | None,
    current: int,
    limit: Callable[[HPAScalingPolicy], int],
    *,
    min_change: Callable[[list[int]], int],
    max_change: Callable[[list[int]], int],
) -> int:
    limits = [limit(policy) for policy in _policies(rules)]
    if not limits or rules is None or rules.selectPolicy == "Disabled":
        return current
    return min_change(limits) if rules.selectPolicy == "Min" else max_change(limits)


def _policies(rules: HPAScalingRules | None) -> Sequence[HPAScalingPolicy]:
    return rules.policies or () if rules is not None else ()


def _sum_changes(changes: Sequence[ScaleEvent], period_s: int, now: float) -> int:
    return sum(change.replicas for change in changes if change.time > now - period_s)
