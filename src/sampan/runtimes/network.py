"""What runtimes need of a network: those that make sandboxes an address for each, and ports of the node; those whose
engine connects pods itself, that it knows how."""

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


class EngineNetwork(Protocol):
    """One node's, for an engine that connects pods by plug-ins. What it raises is RuntimeFailure."""

    async def apply(self, cidrs: Sequence[str]) -> None:
        """Pods that the engine makes from now on have addresses of these ranges."""

    async def remove_all(self) -> None:
        """For a node that is given up; the engine's pods are gone."""


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


__all__ = ["EngineNetwork", "NoNetwork", "PodNetwork"]
