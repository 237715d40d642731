"""A write as it waits to be committed, and the rule that decides whether it may be."""

from msgspec import Struct


class Write(Struct, frozen=True, gc=False):
    key: str
    value: bytes | None
    """None: delete the key."""
    expected: int | None = None
    """As for `Backend.put`."""
    expires: float | None = None
    """When the key goes away by itself, in seconds since the epoch; None: never."""


def is_allowed(write: Write, found: int) -> bool:
    """Whether `write` may follow when its key is at revision `found` (0: does not exist)."""
    if write.value is None and not found:
        return False
    return write.expected is None or write.expected == found
