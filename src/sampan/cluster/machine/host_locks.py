"""Exclusive locks on resources of a machine, such as address ranges and default ports, among its clusters.

A check whether something is free does not suffice if another cluster starts at the same time and has made the same
check. A lock is a Unix socket in the abstract namespace: only one process can bind it, it is released when the process
exits at the latest, and its scope is the network namespace, like that of addresses and ports.
"""

from __future__ import annotations

import errno
import socket

_PREFIX = "sampan "


class HostLocks:
    """The locks of one cluster, which are held until they are closed."""

    def __init__(self) -> None:
        self._locks: dict[str, socket.socket] = {}

    def acquire(self, name: str) -> bool:
        """Lock a name, and return whether this cluster holds it now. Return True on systems without abstract
        sockets."""
        if name in self._locks:
            return True
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0{_PREFIX}{name}")
        except OSError as error:
            lock.close()
            return error.errno != errno.EADDRINUSE
        self._locks[name] = lock
        return True

    def close(self) -> None:
        while self._locks:
            self._locks.popitem()[1].close()
