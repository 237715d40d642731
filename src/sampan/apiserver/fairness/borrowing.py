"""How levels share their seats: what one does not use, another may have for a while."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from sampan.apiserver.fairness.level import Level

PERIOD_S = 10.0
"""Between two times that seats are shared out."""
SAMPLES = 10
_FADING = 0.977
"""How much of a past demand is still believed in a period later."""
_STEPS = 40


@dataclass(slots=True)
class Demand:
    """What a level wanted of late."""

    seen: list[int] = field(default_factory=list)
    smooth: float = 0.0

    def see(self, seats: int) -> None:
        self.seen.append(seats)

    def target(self, most: int) -> float:
        """How many seats to aim for, from what was seen since the last time and the most there ever was in it."""
        seen, self.seen = self.seen or [0], []
        mean = sum(seen) / len(seen)
        spread = math.sqrt(sum((each - mean) ** 2 for each in seen) / len(seen))
        envelope = min(float(most), mean + spread)
        self.smooth = max(envelope, _FADING * self.smooth + (1 - _FADING) * envelope)
        return self.smooth


@dataclass(frozen=True, slots=True)
class Want:
    least: int
    most: int
    target: float


def shared_out(wants: Sequence[Want], seats: int) -> list[int]:
    """Seats for each: the same part of every one's target, as far as their bounds allow, all seats given out."""
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
    """Looks at the levels now and then, and gives each its seats for the next period."""

    def __init__(self, *, seats: int) -> None:
        self._seats = seats
        self._demands: dict[str, Demand] = {}
        self._samples = 0

    def look(self, levels: dict[str, Level]) -> None:
        """To be called SAMPLES times a period."""
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


__all__ = ["PERIOD_S", "SAMPLES", "Borrowing", "Demand", "Want", "shared_out"]
