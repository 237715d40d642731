"""Borrowing of seats between priority levels: unused seats are lent to others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from sampan.apiserver.fairness.level import Level

PERIOD_S = 10.0
"""The interval between two adjustments."""
SAMPLES = 10
_FADING = 0.977
"""The factor by which the smoothed demand decays in each period."""
_STEPS = 40


@dataclass(slots=True)
class Demand:
    """The recent seat demand of a level."""

    seen: list[int] = field(default_factory=list)
    smooth: float = 0.0

    def see(self, seats: int) -> None:
        self.seen.append(seats)

    def target(self, most: int) -> float:
        """Return the target number of seats, from the samples since the last call and `most`, the maximum in that
        time."""
        samples, self.seen = self.seen or [0], []
        mean = sum(samples) / len(samples)
        spread = math.sqrt(sum((sample - mean) ** 2 for sample in samples) / len(samples))
        envelope = min(float(most), mean + spread)
        self.smooth = max(envelope, _FADING * self.smooth + (1 - _FADING) * envelope)
        return self.smooth


@dataclass(frozen=True, slots=True)
class Want:
    least: int
    most: int
    target: float


def shared_out(wants: Sequence[Want], seats: int) -> list[int]:
    """Return the seats of each level: the same fraction of every target, within the bounds, so that all seats are
    allocated."""
    low, high = 0.0, max([seats / max(want.target, 1e-6) for want in wants], default=0.0) + 1
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if sum(_bounded(want, middle) for want in wants) <= seats:
            low = middle
        else:
            high = middle
    return [round(_bounded(want, low)) for want in wants]


def _bounded(want: Want, part: float) -> float:
    return min(max(part * max(want.target, 1e-6), want.least), want.most)


class Borrowing:
    """Samples the demand of the levels periodically, and sets their seats for the next period."""

    def __init__(self, *, seats: int) -> None:
        self._seats = seats
        self._demands: dict[str, Demand] = {}
        self._samples = 0

    def look(self, levels: dict[str, Level]) -> None:
        """Take a sample; must be called SAMPLES times per period."""
        self._demands = {name: self._demands.get(name) or Demand() for name in levels}
        for name, level in levels.items():
            self._demands[name].see(level.taken + level.wanted)
        self._samples += 1
        if self._samples >= SAMPLES:
            self._samples = 0
            self._share_out(levels)

    def _share_out(self, levels: dict[str, Level]) -> None:
        wants = []
        for name, level in levels.items():
            limits, most = level.limits, level.most_wanted
            level.most_wanted = level.taken + level.wanted
            least = max(limits.least, min(limits.seats, most))
            wants.append(Want(least, limits.most(self._seats), self._demands[name].target(most)))
        for level, seats in zip(levels.values(), shared_out(wants, self._seats), strict=True):
            if seats != level.seats:
                level.resize(seats)
