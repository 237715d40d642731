"""What a runtime that makes its own sandboxes needs of a network: an address for each, and ports of the node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sampan.runtimes.config import PortMapping


class PodNetwork(Protocol):
    """One node's. What it raises is RuntimeFailure."""

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        """New sandboxes have addresses of these from now on."""

    async def attach(self, uid: str, namespace: Path, ports: Sequence[PortMapping]) -> Sequence[str]:
        """Connect the network namespace of a pod, whose loopback is up already; its addresses. Again for the same pod
        gives the same."""

    async def detach(self, uid: str) -> None:
        """Take back what the pod had; nothing happens for one that had nothing."""

    def known(self) -> Sequence[str]:
        """The uids of pods that have something."""

    def addresses(self, uid: str) -> Sequence[str]: ...


class NoNetwork:
    """Pods have their own loopback and nothing else."""

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        return

    async def attach(self, uid: str, namespace: Path, ports: Sequence[PortMapping]) -> Sequence[str]:
        return ()

    async def detach(self, uid: str) -> None:
        return

    def known(self) -> Sequence[str]:
        return ()

    def addresses(self, uid: str) -> Sequence[str]:
        return ()


__all__ = ["NoNetwork", "PodNetwork"]
