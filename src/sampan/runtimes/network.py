"""Interfaces between runtimes and the pod network.

`PodNetwork` serves runtimes that create sandboxes themselves: addresses and host ports. `EngineNetwork` serves runtimes
whose engine connects pods through CNI plug-ins: it configures the engine. `PodIsolation` puts network policies into
effect: a pod network calls it before it connects a pod, a runtime whose engine connects pods before it starts the first
container of the pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sampan.runtimes.bandwidth import UNLIMITED, Bandwidth
from sampan.runtimes.config import PortMapping


class PodNetwork(Protocol):
    """The pod network of one node. Operations raise RuntimeFailure."""

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        """Allocate the addresses of new sandboxes from these pod CIDRs."""

    async def attach(
        self, uid: str, namespace: Path, ports: Sequence[PortMapping], bandwidth: Bandwidth = UNLIMITED
    ) -> Sequence[str]:
        """Connect the network namespace of a pod, whose loopback interface is up, and return the pod's addresses. A
        second call for the same pod returns the same addresses."""

    async def detach(self, uid: str) -> None:
        """Release the addresses and ports of the pod. Do nothing for an unknown pod."""

    def known(self) -> Sequence[str]:
        """Return the uids of all pods that hold addresses or ports."""

    def addresses(self, uid: str) -> Sequence[str]: ...


class EngineNetwork(Protocol):
    """The network configuration of an engine that connects pods through plug-ins. Operations raise RuntimeFailure."""

    async def apply(self, cidrs: Sequence[str]) -> None:
        """Configure the engine to allocate the addresses of new pods from these pod CIDRs."""

    async def run(self) -> None:
        """Restore the configuration periodically, if other programs change it, until cancelled."""

    async def remove_all(self) -> None:
        """Remove the configuration, for a node that is removed from the cluster. The pods of the engine are gone by
        then."""


class PodIsolation(Protocol):
    """The network policies of one node. Operations raise RuntimeFailure."""

    def adopt(self, uid: str, addresses: Sequence[str]) -> None:
        """Record a pod that an earlier process has connected, and whose policies are still in effect."""

    async def isolate(self, uid: str, addresses: Sequence[str]) -> None:
        """Return when the policies of a pod are in effect for its addresses."""

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


class NoNetwork:
    """A network in which each pod has only its loopback interface."""

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        return

    async def attach(
        self, uid: str, namespace: Path, ports: Sequence[PortMapping], bandwidth: Bandwidth = UNLIMITED
    ) -> Sequence[str]:
        return ()

    async def detach(self, uid: str) -> None:
        return

    def known(self) -> Sequence[str]:
        return ()

    def addresses(self, uid: str) -> Sequence[str]:
        return ()
