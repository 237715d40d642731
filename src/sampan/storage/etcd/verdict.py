"""Did a write happen whose answer was lost? Decided, where it can be, from what was written to its key since."""

from collections.abc import Sequence
from enum import Enum, auto

from msgspec import Struct

from sampan.storage.backend import Event


class Write(Struct, frozen=True, kw_only=True):
    key: str
    value: bytes | None
    """None for a deletion."""
    expected: int | None

    @property
    def is_safe_twice(self) -> bool:
        """Whether, of two attempts at it, only one can ever take effect."""
        return self.expected is not None


class Outcome(Enum):
    DONE = auto()
    NOT_DONE = auto()
    UNKNOWN = auto()


class Verdict(Struct, frozen=True):
    outcome: Outcome
    revision: int = 0


def judge(write: Write, since: Sequence[Event]) -> Verdict:
    """`since` holds all events of the key after a revision that the store had reached before the first attempt.

    A compare-and-swap put that took effect is the first change after the revision it expected (or made the key, if it
    expected none); its bytes tell it from another's. A deletion looks like any other, so one that is seen proves
    nothing; and a write without a check may take effect later still.
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
