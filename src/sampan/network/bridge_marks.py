"""Marks on the bridges that running processes use, so that the leftovers of other clusters are removed with certainty.

A mark is a Unix socket in the abstract namespace. The kernel removes it when its process ends for any reason. Its scope
is the network namespace, like that of links and nftables tables: every process that shares them sees the mark, also one
of another user, or in another mount or process namespace.

A process that uses a bridge sets its mark first and looks for a removal in progress afterwards; a remover announces the
removal first and looks for marks afterwards. Whichever comes second sees the other one.
"""

from __future__ import annotations

import logging
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sampan.host.linux.network_namespace import NetworkNamespace

log = logging.getLogger(__name__)

_MARK = "sampan bridge "
_REMOVAL = "sampan removal "
_SOCKETS = Path("/proc/thread-self/net/unix")
_POLL_S = 0.01
_REMOVAL_TIMEOUT_S = 10.0
_OWNER = "sampan "
_MOUNT_NAMESPACE = "mnt:"
_ALIAS_BYTES = 255
"""The kernel's limit for the alias of a link."""


def marked_bridges() -> set[str]:
    """Return the names of the bridges that running processes use in the network namespace of this thread. Raise OSError
    if the marks cannot be read."""
    return {name.split(" ")[0] for name in _list_sockets(_MARK)}


def _list_sockets(prefix: str) -> set[str]:
    """Return the names of the abstract sockets with that prefix, without it."""
    marker = f"@{prefix}"
    return {line.partition(marker)[2] for line in _SOCKETS.read_text().splitlines() if marker in line}


class BridgeMark:
    """The mark of a process on a bridge, which may have several. Both calls block."""

    def __init__(self, bridge: str, namespace: NetworkNamespace | None = None) -> None:
        self._bridge, self._namespace = bridge, namespace or NetworkNamespace()
        self._socket: socket.socket | None = None

    def set(self) -> None:
        """Set the mark, and wait for a removal of the bridge that has begun. Without abstract sockets do nothing: there
        are no bridges on such systems."""
        if self._socket is not None or not _SOCKETS.exists():
            return
        mark = self._namespace.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mark.bind(f"\0{_MARK}{self._bridge} {secrets.token_hex(8)}")
        self._socket = mark
        self._namespace.run(self._wait_for_removal)

    def _wait_for_removal(self) -> None:
        deadline = time.monotonic() + _REMOVAL_TIMEOUT_S
        while self._bridge in _list_sockets(_REMOVAL):
            if time.monotonic() > deadline:
                log.warning("the removal of an earlier network of bridge %s has not ended", self._bridge)
                return
            time.sleep(_POLL_S)

    def clear(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


@contextmanager
def marked_bridge(bridge: str) -> Iterator[None]:
    """Mark a bridge for the duration of the block."""
    mark = BridgeMark(bridge)
    mark.set()
    try:
        yield
    finally:
        mark.clear()


@contextmanager
def announced_removal(bridge: str) -> Iterator[bool]:
    """Announce the removal of a bridge, and yield whether no process uses it. A process that begins to use the bridge
    waits until the block ends."""
    with closing(socket.socket(socket.AF_UNIX)) as announcement:
        try:
            announcement.bind(f"\0{_REMOVAL}{bridge}")
        except OSError:  # another process removes it
            yield False
            return
        yield bridge not in marked_bridges()


# -- the owner of a bridge -------------------------------------------------------------------------------------------


def alias_for(directory: Path) -> str:
    """Return the alias of a bridge, which names its owner: the directory, and the mount namespace in which that path
    holds."""
    return f"{_OWNER}{_MOUNT_NAMESPACE}{_own_mount_namespace()} {directory}".encode()[:_ALIAS_BYTES].decode(
        errors="ignore"
    )


def is_alias_of(alias: str, directory: Path) -> bool:
    """Whether the alias names that directory, in any mount namespace: a service may get a new one with each start."""
    owner = alias.removeprefix(_OWNER)
    if owner.startswith(_MOUNT_NAMESPACE):
        _, _, owner = owner.partition(" ")
    if not alias.startswith(_OWNER):
        return False
    return str(directory).startswith(owner) if _is_truncated(alias) else str(directory) == owner


def is_owner_gone(alias: str) -> bool:
    """Whether the directory in the alias certainly does not exist. That is uncertain for a path of another mount
    namespace, for a truncated path, and for one that cannot be examined."""
    namespace, _, path = alias.removeprefix(f"{_OWNER}{_MOUNT_NAMESPACE}").partition(" ")
    if not alias.startswith(_OWNER) or namespace != _own_mount_namespace() or _is_truncated(alias):
        return False
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return path.startswith("/")
    except OSError:
        return False
    return False


def _is_truncated(alias: str) -> bool:
    """Whether the alias may have been cut, which happens at the end of a character."""
    return len(alias.encode()) > _ALIAS_BYTES - 4


def _own_mount_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/mnt").stat().st_ino)
    except OSError:
        return ""
