"""Whether a write took effect whose response was lost, decided where possible from the later events of its key."""

from collections.abc import Sequence
from enum import Enum, auto

from msgspec import Struct

from sampan.storage.backend import Event


class Write(Struct, frozen=True, kw_only=True):
    key: str
    value: bytes | None
    """The value to put, or None for a deletion."""
    expected: int | None

    @property
    def is_safe_twice(self) -> bool:
        """Whether only one of two attempts at the write can ever take effect."""
        return self.expected is not None


class Outcome(Enum):
    DONE = auto()
    NOT_DONE = auto()
    UNKNOWN = auto()


class Verdict(Struct, frozen=True):
    outcome: Outcome
    revision: int = 0


def judge(write: Write, since: Sequence[Event]) -> Verdict:
    """Decide whether the write took effect.

    `since` contains all events of the key after a revision that the store had reached before the first attempt. A
    compare-and-swap put that took effect is the first change after the revision that it expected (or the creation of
    the key, if it expected none), and is identified by its value. A deletion looks like any other deletion, so that
    observing one proves nothing; and an unconditional write may still take effect later.
    """
    if write.value is None:
        return _judge_deletion(write, since)
    for event in since:
        is_ours = event.value == write.value and (write.expected != 0 or event.is_create)
        if is_ours and event.revision > (write.expected or 0):
            return Verdict(Outcome.DONE, event.revision)
        if write.expected and event.revision > write.expected:
            return Verdict(Outcome.NOT_DONE)
    return Verdict(Outcome.UNKNOWN if write.expected is None else Outcome.NOT_DONE)


def _judge_deletion(write: Write, since: Sequence[Event]) -> Verdict:
    if write.expected is None:
        return Verdict(Outcome.UNKNOWN)
    first = next((event for event in since if event.revision > (write.expected or 0)), None)
    return Verdict(Outcome.UNKNOWN if first is not None and first.is_delete else Outcome.NOT_DONE)
