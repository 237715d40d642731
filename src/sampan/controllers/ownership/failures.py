"""Backoff in replacing failed pods: immediately at first, later after each further failure.

Without it, a node that rejects a pod would keep the controller busy.
"""

from dataclasses import dataclass

FIRST_S, MOST_S = 1.0, 900.0
_MANY = 1000


@dataclass(slots=True)
class _Failure:
    pause_s: float
    at: float


class FailureBackoff:
    """The backoff of each key. All times are monotonic."""

    def __init__(self, most_s: float = MOST_S) -> None:
        self._most_s, self._forgotten_s = most_s, 2 * most_s
        self._failures: dict[str, _Failure] = {}

    def held_s(self, key: str, now: float) -> float:
        """Return the seconds for which a failure must still be left alone."""
        failure = self._failures.get(key)
        if failure is None or now - failure.at > self._forgotten_s:
            return 0.0
        return max(failure.at + failure.pause_s - now, 0.0)

    def note(self, key: str, now: float) -> None:
        """Record that a failure was handled, which doubles the wait after the next one."""
        failure = self._failures.get(key)
        if failure is None or now - failure.at > self._forgotten_s:
            self._forget(now)
            self._failures[key] = _Failure(FIRST_S, now)
        else:
            failure.pause_s, failure.at = min(2 * failure.pause_s, self._most_s), now

    def _forget(self, now: float) -> None:
        if len(self._failures) >= _MANY:
            kept = {key: failure for key, failure in self._failures.items() if now - failure.at <= self._forgotten_s}
            self._failures = kept
