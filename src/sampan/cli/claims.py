"""What two clusters of one machine must not both take: ranges of addresses, usual ports.

Looking whether something is free says nothing about a cluster that begins at the same moment and has looked too. A
claim is the name of a Unix socket outside the file system: one process has it at a time, it ends with the process at
the latest, and it holds in one network, as ranges and ports do.
"""

from __future__ import annotations

import errno
import socket


class Claims:
    """Those of one cluster, until they are closed."""

    def __init__(self) -> None:
        self._held: dict[str, socket.socket] = {}

    def take(self, name: str) -> bool:
        """Whether it is this cluster's now. Where there are no such names everything may be taken."""
        if name in self._held:
            return True
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0sampan {name}")
        except OSError as fault:
            claim.close()
            return fault.errno != errno.EADDRINUSE
        self._held[name] = claim
        return True

    def close(self) -> None:
        while self._held:
            self._held.popitem()[1].close()


__all__ = ["Claims"]
