"""The pauses between tries: 10 s, doubled each time up to 5 min, begun anew when all was well for 10 min.

Times are monotonic unless a parameter says otherwise.
"""

from dataclasses import dataclass

FIRST_S = 10.0
MOST_S = 300.0
FORGOTTEN_S = 600.0


@dataclass(slots=True)
class BackOff:
    """Of one container, or of the pulls of one image."""

    pause_s: float = 0.0
    """0 before the first failure."""
    since: float = 0.0
    """The monotonic time at which the pause was last lengthened."""
    why: str = ""
    """The last failure, for whoever is told to wait."""
    most_s: float = MOST_S
    _failure: tuple[float, float] | None = None
    """The wall-clock stamp of the last failure, and the monotonic time at which it must have been."""

    def failed_at(self, stamp: float, *, now: float, monotonic: float) -> float:
        """The monotonic time of the failure with this wall-clock stamp. It is worked out when the stamp is first seen,
        so that a wall clock that is set later does not move it."""
        if self._failure is None or self._failure[0] != stamp:
            self._failure = stamp, monotonic - max(now - stamp, 0.0)
        return self._failure[1]

    def left_s(self, failed_at: float, now: float) -> float:
        """How long to wait still, after a failure at that time; 0: go on."""
        if self.pause_s == 0 or self._is_forgotten(failed_at):
            return 0.0
        return max(failed_at + self.pause_s - now, 0.0)

    def lengthen(self, failed_at: float, now: float) -> None:
        """Another try is made."""
        is_first = self.pause_s == 0 or self._is_forgotten(failed_at)
        self.pause_s = min(FIRST_S if is_first else self.pause_s * 2, self.most_s)
        self.since = now

    def _is_forgotten(self, failed_at: float) -> bool:
        return failed_at - self.since > FORGOTTEN_S


__all__ = ["FIRST_S", "FORGOTTEN_S", "MOST_S", "BackOff"]
