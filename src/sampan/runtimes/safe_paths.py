"""Finding files inside a root that strangers have filled: links are followed as if that were the machine's root."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

_MOST_LINKS = 40


class UnsafePath(ValueError):
    """The path leads in a circle."""


def inside(root: Path, path: str) -> Path:
    """Where `path` leads to within `root`; the rest of it as it is from the first part on that does not exist."""
    left, done, links = [part for part in PurePosixPath("/" + path).parts if part != "/"], root, 0
    while left:
        part = left.pop(0)
        if part == "..":
            done = done.parent if done != root else done
            continue
        step = done / part
        if not step.is_symlink():
            done = step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise UnsafePath(f"{path} leads in a circle")
        to = PurePosixPath(os.readlink(step))
        if to.is_absolute():
            done = root
        left = [each for each in to.parts if each != "/"] + left
    return done


__all__ = ["UnsafePath", "inside"]
