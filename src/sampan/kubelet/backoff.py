"""Exponential back-off of container restarts and image pulls: 10 s, doubled up to 5 min, reset after 10 min without
failure.

Times are monotonic unless a parameter says otherwise.
"""

from dataclasses import dataclass

FIRST_S = 10.0
MOST_S = 300.0
FORGOTTEN_S = 600.0


@dataclass(slots=True)
class BackOff:
    """Back-off of one container, or of the pulls of one image."""

    pause_s: float = 0.0
    """Current delay; 0 before the first failure."""
    since: float = 0.0
    """Monotonic time at which the delay was last increased."""
    why: str = ""
    """Last failure, for the status message while backing off."""
    most_s: float = MOST_S
    _failure: tuple[float, float] | None = None
    """Wall-clock time of the last failure and the corresponding monotonic time."""

    def failed_at(self, stamp: float, *, now: float, monotonic: float) -> float:
        """Return the monotonic time of the failure with this wall-clock time. It is computed when the timestamp is
        first seen, so that adjusting the wall clock later does not move it.
        """
        if self._failure is None or self._failure[0] != stamp:
            self._failure = stamp, monotonic - max(now - stamp, 0.0)
        return self._failure[1]

    def left_s(self, failed_at: float, now: float) -> float:
        """Return the seconds left to wait after a failure at `failed_at`; 0 if a retry is due."""
        if self.pause_s == 0 or self._is_forgotten(failed_at):
            return 0.0
        return max(failed_at + self.pause_s - now, 0.0)

    def lengthen(self, failed_at: float, now: float) -> None:
        """Record another attempt, which increases the delay."""
        is_first = self.pause_s == 0 or self._is_forgotten(failed_at)
        self.pause_s = min(FIRST_S if is_first else self.pause_s * 2, self.most_s)
        self.since = now

    def _is_forgotten(self, failed_at: float) -> bool:
        return failed_at - self.since > FORGOTTEN_S
