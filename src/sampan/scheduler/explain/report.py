"""What is told about a pod: plain values that go over the wire as JSON."""

from __future__ import annotations

import msgspec


class Verdict(msgspec.Struct, omit_defaults=True):
    plugin: str
    reasons: list[str]
    isFinal: bool = False
    """Removing pods from the node would not help."""


class Score(msgspec.Struct):
    plugin: str
    score: int
    """0 to 100."""
    weight: int


class NodeReport(msgspec.Struct, omit_defaults=True):
    name: str
    fits: bool
    refusals: list[Verdict] = []
    scores: list[Score] = []
    total: int = 0


class LastDecision(msgspec.Struct, omit_defaults=True):
    time: float
    attempt: int
    node: str = ""
    feasible: int = 0
    score: int = 0
    """Of the plug-ins that told nodes apart."""
    message: str = ""
    nominated: str = ""


class Waiting(msgspec.Struct, omit_defaults=True):
    """A pod that has no node yet."""

    queue: str
    """active, backoff, unschedulable, gated, taken."""
    since: float
    attempts: int = 0
    plugins: list[str] = []
    """Those that refused it: it is tried again when something happens that may change their minds."""
    gate: str = ""


class Explanation(msgspec.Struct, omit_defaults=True):
    pod: str
    """namespace/name"""
    scheduler: str
    time: float
    node: str = ""
    """Where it is."""
    isFamiliar: bool = True
    """Whether some scheduler of this process is responsible for it."""
    decision: LastDecision | None = None
    waiting: Waiting | None = None
    gate: str = ""
    """What would keep it out of the queue, if it is not there yet."""
    message: str = ""
    """In the words of the event, as of now; empty if a node would do."""
    best: str = ""
    """Where it would go now."""
    count: int = 0
    """How many nodes there are; `nodes` may have fewer."""
    feasible: int = 0
    filters: list[str] = []
    """Those that were asked, in their order."""
    skipped: list[str] = []
    """Those that have nothing to say about such a pod."""
    nodes: list[NodeReport] = []
    notes: list[str] = []
    """What could not be found out."""


__all__ = ["Explanation", "LastDecision", "NodeReport", "Score", "Verdict", "Waiting"]
