"""Stabilization of recommendations over a window, so that the number of replicas does not flap. Does no I/O."""

from dataclasses import dataclass, field
from typing import NamedTuple

from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscalerBehavior, HPAScalingRules

_LOWEST = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_HIGHEST = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_READY = "ReadyForNewScale", "recommended size matches current size"


class Stabilized(NamedTuple):
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

    def begin(self, current: int, now: float) -> None:
        """Seed the window with the current replicas the first time that the autoscaler is evaluated."""
        if not self.recent:
            self.recent.append(_Recommendation(now, current))

    def highest(self, desired: int, now: float) -> Stabilized:
        """Stabilize without a behavior: return the highest recommendation in the window."""
        cutoff = now - self.window_s
        replicas = max(
            (desired, *(recommendation.replicas for recommendation in self.recent if recommendation.time >= cutoff))
        )
        self._keep(desired, now, cutoff)
        return Stabilized(replicas, *(_READY if replicas == desired else _HIGHEST))

    def settled(self, behavior: HorizontalPodAutoscalerBehavior, current: int, desired: int, now: float) -> Stabilized:
        """Stabilize with a behavior: at most the lowest of the scale-up window, at least the highest of the scale-down
        one."""
        up, down = now - _window_s(behavior.scaleUp, 0), now - _window_s(behavior.scaleDown, self.window_s)
        lowest = min(
            (desired, *(recommendation.replicas for recommendation in self.recent if recommendation.time > up))
        )
        highest = max(
            (desired, *(recommendation.replicas for recommendation in self.recent if recommendation.time > down))
        )
        self._keep(desired, now, min(up, down))
        replicas = min(max(current, lowest), highest)
        if replicas == desired:
            return Stabilized(replicas, *_READY)
        return Stabilized(replicas, *(_LOWEST if desired >= current else _HIGHEST))

    def _keep(self, desired: int, now: float, cutoff: float) -> None:
        self.recent = [recommendation for recommendation in self.recent if recommendation.time >= cutoff]
        self.recent.append(_Recommendation(now, desired))


def _window_s(rules: HPAScalingRules | None, otherwise: float) -> float:
    window_s = rules.stabilizationWindowSeconds if rules is not None else None
    return otherwise if window_s is None else window_s
