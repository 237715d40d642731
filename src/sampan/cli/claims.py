"""Exclusive claims on resources of a machine, such as address ranges and default ports, among its clusters.

A check whether something is free does not suffice if another cluster starts at the same time and has made the same
check. A claim is a Unix socket in the abstract namespace: only one process can bind it, it is released when the process
exits at the latest, and its scope is the network namespace, like that of addresses and ports.
"""

from __future__ import annotations

import errno
import socket


class Claims:
    """The claims of one cluster, which are held until they are closed."""

    def __init__(self) -> None:
        self._held: dict[str, socket.socket] = {}

    def take(self, name: str) -> bool:
        """Claim a name, and return whether this cluster holds it now. Return True on systems without abstract
        sockets."""
        if name in self._held:
            return True
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0sampan {name}")
        except OSError as error:
            claim.close()
            return error.errno != errno.EADDRINUSE
        self._held[name] = claim
        return True

    def close(self) -> None:
        while self._held:
            self._held.popitem()[1].close()
