"""The interface through which the pod network lets network policies take effect before a pod's first packet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class IsolationError(Exception):
    """The policies of a pod cannot be put into effect; the pod must not be connected."""


class PodIsolation(Protocol):
    """Called by the pod network. Operations raise IsolationError."""

    def adopt(self, uid: str, addresses: Sequence[str]) -> None:
        """Record a pod that an earlier process has connected, and whose policies are still in effect."""

    async def isolate(self, uid: str, addresses: Sequence[str]) -> None:
        """Return when the policies of a pod are in effect for its addresses; only then the pod is connected."""

    async def release(self, uid: str) -> None:
        """Forget a pod that is disconnected."""

    async def remove_all(self) -> None:
        """Remove everything, for a node that is removed and has no pods any more."""


class NoIsolation:
    """A network without network policies."""

    def adopt(self, uid: str, addresses: Sequence[str]) -> None:
        return

    async def isolate(self, uid: str, addresses: Sequence[str]) -> None:
        return

    async def release(self, uid: str) -> None:
        return

    async def remove_all(self) -> None:
        return
