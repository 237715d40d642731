"""Users as images name them: `1000`, `www`, `1000:1000`, `www:staff`.

There is one reader for the check that a container does not run as root and for running it: two readers that disagree
about `00`, `+0` or digits of other scripts would let root pass.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

LARGEST_ID: Final = (1 << 31) - 1
"""The largest id of a user or group that the API takes. What is larger would become another number in the kernel."""
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
"""What Go's strconv.ParseInt takes for a number."""


class BadUser(ValueError):
    """A number that no user or group can have; the message says which."""


class ImageUser(NamedTuple):
    name: str
    """The part before the colon; empty where the image names nobody, which means root."""
    uid: int | None
    """None where the name is none of a number: only the container's /etc/passwd knows whom it means."""
    group: str = ""


def parse_user(text: str) -> ImageUser:
    name, _, group = text.partition(":")
    return ImageUser(name, parse_id(name) if name else 0, group)


def parse_id(text: str) -> int | None:
    """The number of a user or group; None where the text is a name."""
    if not _NUMBER.fullmatch(text):
        return None
    value = int(text) if len(text) <= 20 else LARGEST_ID + 1
    if not 0 <= value <= LARGEST_ID:
        raise BadUser(f"id {text[:40]} is out of range: it must be between 0 and {LARGEST_ID}")
    return value


__all__ = ["LARGEST_ID", "BadUser", "ImageUser", "parse_id", "parse_user"]
