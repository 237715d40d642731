"""Whether this process is root of the machine, or only of a user namespace."""

from __future__ import annotations

from pathlib import Path

_ALL_IDS = (1 << 32) - 1
_UID_MAP, _GID_MAP = Path("/proc/self/uid_map"), Path("/proc/self/gid_map")


def is_in_user_namespace() -> bool:
    """Whether this process is in a user namespace other than that of the machine. In such a namespace, root has no
    privileges over resources of the machine: devices, cgroups, most sysctls, and files of other users."""
    return _rows(_UID_MAP) not in ([], [[0, 0, _ALL_IDS]])


def is_group_mapped(gid: int) -> bool:
    """Whether the user namespace of this process has a group of this ID."""
    return any(first <= gid < first + count for first, _, count in _rows(_GID_MAP) or [[0, 0, _ALL_IDS]])


def _rows(path: Path) -> list[list[int]]:
    try:
        return [[int(word) for word in line.split()] for line in path.read_text().splitlines()]
    except (OSError, ValueError):
        return []
