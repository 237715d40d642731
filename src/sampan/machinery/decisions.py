"""What a reconcile needs, has and does, for the debug line that the runner of its controller writes.

Controllers note the decision of their plan with `note_decision`; the client notes every write. Without a reconcile that
collects decisions, at other log levels than debug for instance, a note costs the look at one context variable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MAX_NOTES = 20
"""At most this many decisions, and as many different writes, of one reconcile are part of its line."""


class ReconcileDecisions:
    """The decisions and writes of one reconcile, in their order."""

    __slots__ = ("_decisions", "_writes")

    def __init__(self) -> None:
        self._decisions: dict[str, None] = {}
        self._writes: Counter[str] = Counter()

    def add_decision(self, text: str) -> None:
        if len(self._decisions) < MAX_NOTES:
            self._decisions[text] = None

    def add_write(self, text: str) -> None:
        if text in self._writes or len(self._writes) < MAX_NOTES:
            self._writes[text] += 1

    @property
    def text(self) -> str:
        """The decisions, then the writes with their numbers; empty if the reconcile did nothing."""
        if not self._decisions and not self._writes:
            return ""
        writes = (text if count == 1 else f"{text} ({count} times)" for text, count in self._writes.items())
        return "; ".join((*self._decisions, ", ".join(writes) or "no writes"))


_current: ContextVar[ReconcileDecisions | None] = ContextVar("reconcile decisions", default=None)


@contextmanager
def collect_decisions() -> Iterator[ReconcileDecisions]:
    """Collect the decisions of the current task, and of the tasks that it starts, for the duration of the block."""
    decisions = ReconcileDecisions()
    token = _current.set(decisions)
    try:
        yield decisions
    finally:
        _current.reset(token)


def note_decision(need: object, have: object, action: str) -> None:
    """Note what the current reconcile needs, what it has, and what it therefore does."""
    if (decisions := _current.get()) is not None:
        decisions.add_decision(f"need {need}, have {have}: {action}")


def note_write(method: str, path: str) -> None:
    """Note a request of the current reconcile that changes something."""
    if (decisions := _current.get()) is not None:
        decisions.add_write(f"{method} {path}")
