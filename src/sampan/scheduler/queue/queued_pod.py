"""A pending pod in the scheduling queue, its possible positions and the events that move it."""

from __future__ import annotations

from dataclasses import dataclass

from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource

ACTIVE, BACKOFF, UNSCHEDULABLE, GATED, IN_FLIGHT = "active", "backoff", "unschedulable", "gated", "taken"

POD_ADDED = ClusterEvent(EventResource.POD, ActionType.ADD).label
POD_UPDATED = ClusterEvent(EventResource.POD, ActionType.UPDATE).label
ATTEMPT_FAILED, BACKOFF_COMPLETE, POPPED_EARLY = "ScheduleAttemptFailure", "BackoffComplete", "PopFromBackoffQ"
ACTIVATED, FLUSHED = "ForceActivate", "UnschedulableTimeout"
"""Names in metrics for moves that are not caused by cluster events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfig:
    first_backoff_s: float = 1.0
    most_backoff_s: float = 10.0
    flush_s: float = 300.0
    """How long a pod stays unschedulable before it is retried without an event, in seconds."""


@dataclass(slots=True, eq=False)
class QueuedPodInfo:
    info: PodInfo
    since: float
    """The monotonic time at which the pod was last added to the queue."""
    first: float
    """The wall clock time at which the pod was first added to the queue."""
    entered: float | None = None
    """The monotonic time at which the pod first became active."""
    attempts: int = 0
    began: float = 0.0
    """The start of the current attempt by `time.perf_counter()`."""
    failures: int = 0
    """The number of failed attempts, which determines the backoff."""
    plugins: frozenset[str] = frozenset()
    """The plug-ins that rejected the pod last; empty if there were no nodes or an error occurred."""
    gated_by: str = ""
    gate_message: str = ""
    where: str = ""
    moves: int = 0
    """The number of events that had moved pods when the attempt started."""
    is_error: bool = False
    is_flushed: bool = False
    """Whether the pod is retried because of its waiting time, without an event."""

    @property
    def uid(self) -> str:
        return self.info.uid
