"""Delays before retries, which double with each failure."""

from __future__ import annotations

from dataclasses import dataclass

_MAX_DOUBLINGS = 64


@dataclass(frozen=True, slots=True)
class Backoff:
    """The delays of one kind of work. There is no jitter, so that a run on a virtual clock is reproducible."""

    first_s: float = 0.005
    max_s: float = 1000.0

    def delay_after(self, failures: int) -> float:
        """Return the delay in seconds after `failures` previous failures."""
        return min(self.first_s * 2.0 ** min(failures, _MAX_DOUBLINGS), self.max_s)


@dataclass(slots=True)
class RetryDelays:
    """The delays of one piece of work that is retried until it succeeds."""

    backoff: Backoff
    failures: int = 0

    def next_s(self) -> float:
        """Count a failure, and return the delay before the next attempt."""
        delay_s = self.backoff.delay_after(self.failures)
        self.failures += 1
        return delay_s

    def reset(self) -> None:
        """Begin again with the first delay, after a success."""
        self.failures = 0


@dataclass(slots=True)
class FailureBackoff:
    """The backoff of something that runs for a while and may fail at any time: the delay doubles with each failure, and
    begins again after a time without one. Times are monotonic."""

    backoff: Backoff
    reset_s: float
    """The time without a failure after which earlier ones are forgotten."""
    delay_s: float = 0.0
    """The current delay; 0 before the first failure."""
    since: float = 0.0
    """When the delay was last increased."""

    def remaining_s(self, failed_at: float, now: float) -> float:
        """Return the seconds left to wait after a failure at `failed_at`; 0 if a retry is due."""
        if self.delay_s == 0 or self.is_forgotten(failed_at):
            return 0.0
        return max(failed_at + self.delay_s - now, 0.0)

    def lengthen(self, failed_at: float, now: float) -> None:
        """Record another attempt after a failure at `failed_at`, which increases the delay."""
        is_first = self.delay_s == 0 or self.is_forgotten(failed_at)
        self.delay_s = min(self.backoff.first_s if is_first else 2 * self.delay_s, self.backoff.max_s)
        self.since = now

    def is_forgotten(self, failed_at: float) -> bool:
        """Whether a failure at that time is the first one after a long time without one."""
        return failed_at - self.since > self.reset_s
