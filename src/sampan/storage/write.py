"""A pending write, and the rule that decides whether it may be committed."""

from msgspec import Struct


class Write(Struct, frozen=True, gc=False):
    key: str
    value: bytes | None
    """The value to put, or None to delete the key."""
    expected: int | None = None
    """The expected revision, as in `Backend.put`."""
    expires: float | None = None
    """When the key expires, in seconds since the epoch; None for never."""


def is_allowed(write: Write, found: int) -> bool:
    """Whether the write is allowed if its key is at revision `found` (0: does not exist)."""
    if write.value is None and not found:
        return False
    return write.expected is None or write.expected == found
