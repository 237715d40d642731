"""A pending pod in the queue, where it may be there, and what brings it from one place to the next."""

from __future__ import annotations

from dataclasses import dataclass

from sampan.scheduler.framework.contract import Action, ClusterEvent, Resource
from sampan.scheduler.pod_info import PodInfo

ACTIVE, BACKOFF, UNSCHEDULABLE, GATED, TAKEN = "active", "backoff", "unschedulable", "gated", "taken"

POD_ADDED = ClusterEvent(Resource.POD, Action.ADD).label
POD_UPDATED = ClusterEvent(Resource.POD, Action.UPDATE).label
ATTEMPT_FAILED, BACKOFF_COMPLETE, POPPED_EARLY = "ScheduleAttemptFailure", "BackoffComplete", "PopFromBackoffQ"
ACTIVATED, FLUSHED = "ForceActivate", "UnschedulableTimeout"
"""What else moves pods than events of the cluster, as metrics call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfig:
    first_backoff_s: float = 1.0
    most_backoff_s: float = 10.0
    flush_s: float = 300.0
    """After that long an unschedulable pod is tried again whatever happened."""


@dataclass(slots=True, eq=False)
class Queued:
    info: PodInfo
    since: float
    """When it was last added."""
    first: float
    """When it was first added."""
    entered: float | None = None
    """When it first might be tried: nothing kept it out any more."""
    attempts: int = 0
    began: float = 0.0
    """When the present attempt began, by the machine's own clock."""
    failures: int = 0
    """Attempts since which it backs off."""
    plugins: frozenset[str] = frozenset()
    """Those that refused it last; none: there was no node, or an error."""
    gated_by: str = ""
    gate_message: str = ""
    where: str = ""
    moves: int = 0
    """How many events had moved pods when its attempt began."""
    is_error: bool = False
    is_flushed: bool = False
    """It is tried because it waited long, not because something happened."""

    @property
    def uid(self) -> str:
        return self.info.uid


__all__ = [
    "ACTIVATED",
    "ACTIVE",
    "ATTEMPT_FAILED",
    "BACKOFF",
    "BACKOFF_COMPLETE",
    "FLUSHED",
    "GATED",
    "POD_ADDED",
    "POD_UPDATED",
    "POPPED_EARLY",
    "TAKEN",
    "UNSCHEDULABLE",
    "QueueConfig",
    "Queued",
]
