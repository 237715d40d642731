"""The explanation of a pod, as plain structures that are sent as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec

if TYPE_CHECKING:
    from sampan.scheduler.cycle.decision_recorder import SchedulingDecision


class PluginRejection(msgspec.Struct, omit_defaults=True):
    plugin: str
    reasons: list[str]
    isFinal: bool = False
    """Whether preemption on the node would not help."""


class PluginScore(msgspec.Struct):
    plugin: str
    score: int
    """The normalized score, from 0 to 100."""
    weight: int


class ResourceShortage(msgspec.Struct):
    """A resource of which a node has less left than the pod requests. CPU is in millicores, everything else in whole
    units."""

    resource: str
    request: int
    """The request of the pod."""
    node: str
    allocatable: int
    requested: int
    """The sum of the requests of the pods on the node."""


class NodeReport(msgspec.Struct, omit_defaults=True):
    name: str
    fits: bool
    refusals: list[PluginRejection] = []
    shortages: list[ResourceShortage] = []
    scores: list[PluginScore] = []
    total: int = 0


class LastDecision(msgspec.Struct, omit_defaults=True):
    time: float
    attempt: int
    node: str = ""
    feasible: int = 0
    score: int = 0
    """The weighted score of the node; plugins that cannot distinguish nodes may be left out."""
    message: str = ""
    nominated: str = ""

    @classmethod
    def from_decision(cls, decision: SchedulingDecision, **fields: str) -> Self:
        return cls(
            time=decision.time,
            attempt=decision.attempt,
            node=decision.node,
            feasible=decision.feasible,
            score=decision.score,
            message=decision.message,
            nominated=decision.nominated,
            **fields,
        )


class QueueState(msgspec.Struct, omit_defaults=True):
    """The queue state of a pod without a node."""

    queue: str
    """One of active, backoff, unschedulable, gated, taken."""
    since: float
    attempts: int = 0
    plugins: list[str] = []
    """The plugins that rejected the pod; it is retried after an event that may change their result."""
    gate: str = ""


class Explanation(msgspec.Struct, omit_defaults=True):
    pod: str
    """The pod as `namespace/name`."""
    scheduler: str
    time: float
    node: str = ""
    """The node that the pod is bound to."""
    isFamiliar: bool = True
    """Whether a profile of this scheduler is responsible for the pod."""
    decision: LastDecision | None = None
    waiting: QueueState | None = None
    gate: str = ""
    """The message of the gate that would keep the pod out of the queue, if it is not queued yet."""
    message: str = ""
    """The current text of the FailedScheduling event; empty if a node is feasible."""
    best: str = ""
    """The node that the pod would get now."""
    count: int = 0
    """The number of nodes in the cluster; `nodes` may contain fewer."""
    feasible: int = 0
    filters: list[str] = []
    """The filter plugins that were run, in their order."""
    skipped: list[str] = []
    """The plugins that skipped this pod."""
    shortages: list[ResourceShortage] = []
    """The resources that nodes lack, each for the node that has most left of those that lack it."""
    nodes: list[NodeReport] = []
    notes: list[str] = []
    """Errors that leave the explanation incomplete."""
