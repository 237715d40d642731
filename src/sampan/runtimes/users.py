"""Users as images name them: `1000`, `www`, `1000:1000`, `www:staff`.

The check of runAsNonRoot and the start of a container share this parser: two parsers that disagree about `00`, `+0` or
non-ASCII digits would let root pass.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MAX_ID: Final = (1 << 31) - 1
"""The largest user or group id that the API accepts. A larger id would become a different number in the kernel."""
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
"""The syntax that Go's strconv.ParseInt accepts."""


class BadUser(ValueError):
    """A number that is not a valid user or group id; the message names it."""


class ImageUser(NamedTuple):
    name: str
    """The part before the colon, a number or a name. It is empty if the image sets no user, which means root."""
    uid: int | None
    """The uid; None if the name is not a number: only the container's /etc/passwd maps it to a uid."""
    group: str = ""


def parse_user(text: str) -> ImageUser:
    name, _, group = text.partition(":")
    return ImageUser(name, parse_id(name) if name else 0, group)


def parse_id(text: str) -> int | None:
    """Return the user or group id, or None if the text is a name. Raise BadUser if the number is out of range."""
    if not _NUMBER.fullmatch(text):
        return None
    value = int(text) if len(text) <= 20 else MAX_ID + 1
    if not 0 <= value <= MAX_ID:
        raise BadUser(f"id {text[:40]} is out of range: it must be between 0 and {MAX_ID}")
    return value
