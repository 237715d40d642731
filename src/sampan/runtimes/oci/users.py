"""The user that a container runs as: a uid, or a name that is resolved with the image's /etc/passwd and /etc/group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sampan.api import limits
from sampan.runtimes.config import ContainerSecurity
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.safe_paths import RootDirectory, UnsafePath, opened_root
from sampan.runtimes.users import BadUser, ImageUser, parse_id, parse_user

_CREATE_FAILED, _CONFIG_FAILED = "CreateContainerError", "CreateContainerConfigError"


@dataclass(frozen=True, slots=True)
class ContainerIdentity:
    uid: int = 0
    gid: int = 0
    groups: Sequence[int] = ()
    """The group ids. The first one is `gid`, so that a process keeps its primary group when it changes its gid."""
    home: str = ""


def identity(security: ContainerSecurity, image_user: str, root: Path) -> ContainerIdentity:
    """Return the user that the pod sets, or else the image's user. Raise RuntimeFailure if the name is unknown, if the
    files of the image cannot be read safely, or if the user is root and the pod forbids that."""
    try:
        with opened_root(root) as opened:
            account = _identity(security, image_user, opened)
    except (BadUser, UnsafePath) as error:
        raise RuntimeFailure(_CREATE_FAILED, f"the container's user cannot be determined: {error}") from None
    if security.must_not_be_root and account.uid == 0:
        raise RuntimeFailure(_CONFIG_FAILED, "container has runAsNonRoot and image will run as root")
    return account


def _identity(security: ContainerSecurity, image_user: str, root: RootDirectory) -> ContainerIdentity:
    if security.user is not None:
        user = ImageUser(str(security.user), security.user)
    else:
        user = parse_user(security.username or image_user or "0")
    row = _user_row(_rows(root, "etc/passwd", 4), user)
    if row is None and user.uid is None:
        message = f"unable to find user {user.name}: no matching entries in passwd file"
        raise RuntimeFailure(_CREATE_FAILED, message)
    uid = user.uid if user.uid is not None else _id(row[2]) if row is not None else 0
    if security.group is not None:
        gid = security.group
    elif user.group:
        gid = _group(root, user.group)
    else:
        gid = _id(row[3]) if row is not None else 0
    groups = [gid]
    if security.supplemental_policy == "Merge" and row is not None:
        groups += _memberships(root, row[0])
    groups += security.supplemental_groups
    home = row[5] if row is not None and len(row) > 5 else ""
    return ContainerIdentity(uid, gid, tuple(dict.fromkeys(groups)), home or "/")


def _group(root: RootDirectory, name: str) -> int:
    number = parse_id(name)
    if number is not None:
        return number
    for row in _rows(root, "etc/group", 3):
        if row[0] == name:
            return _id(row[2])
    raise RuntimeFailure(_CREATE_FAILED, f"unable to find group {name}: no matching entries in group file")


def _memberships(root: RootDirectory, user: str) -> list[int]:
    rows = [row for row in _rows(root, "etc/group", 4) if user in row[3].split(",")]
    return [_id(row[2]) for row in rows]


def _user_row(rows: Sequence[list[str]], user: ImageUser) -> list[str] | None:
    if user.uid is not None:
        return next((row for row in rows if _number(row[2]) == user.uid), None)
    return next((row for row in rows if row[0] == user.name), None)


def _number(text: str) -> int | None:
    try:
        return parse_id(text)
    except BadUser:
        return None


def _id(text: str) -> int:
    value = parse_id(text)
    if value is None:
        raise BadUser(f"{text[:40]!r} is not the id of a user or group")
    return value


def _rows(root: RootDirectory, path: str, fields: int) -> list[list[str]]:
    """Return the lines of the file with at least that many fields; a missing file has none. Raise UnsafePath if the
    file is not a regular file or is too large."""
    try:
        text = root.read(path, limits.CONTAINER_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    rows = [line.strip().split(":") for line in text.splitlines()]
    return [row for row in rows if len(row) >= fields]
