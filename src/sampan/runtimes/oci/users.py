"""Whom a container runs as: a number, or a name that the image's own files know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sampan.runtimes.config import Security
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.safe_paths import UnsafePath, inside

_MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class Identity:
    uid: int = 0
    gid: int = 0
    groups: Sequence[int] = ()
    """The first is `gid`: a process that changes its own is not to lose it."""
    home: str = ""


def identity(security: Security, image_user: str, root: Path) -> Identity:
    """What the pod says, else what the image says. RuntimeFailure for a name that nobody knows."""
    if security.user is not None:
        name, group = str(security.user), ""
    else:
        name, _, group = (security.username or image_user or "0").partition(":")
    entry = _find(_lines(root, "etc/passwd"), name)
    if entry is None and not name.isdecimal():
        raise RuntimeFailure("CreateContainerError", f"unable to find user {name}: no matching entries in passwd file")
    uid = int(entry[2]) if entry is not None else int(name)
    gid = int(entry[3]) if entry is not None and entry[3].isdecimal() else 0
    if group:
        gid = _group(root, group)
    if security.group is not None:
        gid = security.group
    groups = [gid]
    if security.supplemental_policy == "Merge" and entry is not None:
        groups += _memberships(root, entry[0])
    groups += security.supplemental_groups
    home = entry[5] if entry is not None and len(entry) > 5 else ""
    return Identity(uid, gid, tuple(dict.fromkeys(groups)), home or "/")


def _group(root: Path, name: str) -> int:
    if name.isdecimal():
        return int(name)
    for row in _lines(root, "etc/group"):
        if row[0] == name:
            return int(row[2])
    raise RuntimeFailure("CreateContainerError", f"unable to find group {name}: no matching entries in group file")


def _memberships(root: Path, user: str) -> list[int]:
    rows = [row for row in _lines(root, "etc/group", fields=4) if user in row[3].split(",")]
    return [int(row[2]) for row in rows if row[2].isdecimal()]


def _find(rows: Sequence[list[str]], name: str) -> list[str] | None:
    column = 2 if name.isdecimal() else 0
    return next((row for row in rows if row[column] == name and row[2].isdecimal()), None)


def _lines(root: Path, path: str, fields: int = 3) -> list[list[str]]:
    try:
        with open(inside(root, path), "rb") as file:
            text = file.read(_MOST).decode("utf-8", "replace")
    except (OSError, UnsafePath):
        return []
    rows = [line.strip().split(":") for line in text.splitlines()]
    return [row for row in rows if len(row) > max(fields - 1, 3 if path.endswith("passwd") else 2)]


__all__ = ["Identity", "identity"]
