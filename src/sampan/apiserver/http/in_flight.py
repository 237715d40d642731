"""Limits on concurrent requests, which apply unless API Priority and Fairness is enabled.

Long-running requests (watches, streams into containers) do not count, and members of system:masters are never rejected.
The counterpart is `k8s.io/apiserver/pkg/server/filters/maxinflight.go`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sampan.apiserver.call import MASTERS, Call
from sampan.apiserver.fairness.fairness import Fairness
from sampan.apiserver.http.limits import HttpLimits
from sampan.apiserver.request_metrics import RequestMetrics
from sampan.machinery import errors
from sampan.machinery.metrics import Number

_READS = frozenset({"get", "list"})
_LASTING = frozenset({"watch", "proxy"})
_LASTING_PARTS = frozenset({"attach", "exec", "log", "portforward", "proxy"})


def is_lasting(call: Call) -> bool:
    """Whether the request is long-running: it lasts as long as the client wants."""
    return call.verb in _LASTING or call.subresource in _LASTING_PARTS


class InFlight:
    def __init__(self, *, limits: HttpLimits, metrics: RequestMetrics, fairness: Fairness | None = None) -> None:
        self.fairness = fairness
        self._reading = _Lane(limits.reading, metrics.read_only)
        self._writing = _Lane(limits.writing, metrics.mutating)

    def enter(self, call: Call) -> Number | None:
        """Count a classified request and return the counter for `leave`. Raise TooManyRequests at the limit."""
        if is_lasting(call):
            return None
        lane = self._reading if call.verb in _READS else self._writing
        if self.fairness is None and lane.now.value >= lane.most and MASTERS not in call.user.groups:
            raise errors.too_many_requests("Too many requests, please try again later.", retry_after_s=1)
        lane.now.value += 1
        return lane.now

    def leave(self, entered: Number | None) -> None:
        if entered is not None:
            entered.value -= 1


@dataclass(slots=True)
class _Lane:
    most: int
    now: Number
