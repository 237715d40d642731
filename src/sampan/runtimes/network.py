"""Interfaces between runtimes and the pod network.

`PodNetwork` serves runtimes that create sandboxes themselves: addresses and host ports. `EngineNetwork` serves runtimes
whose engine connects pods through CNI plugins: it configures the engine. `PodIsolation` puts network policies into
effect: a pod network calls it before it connects a pod, a runtime whose engine connects pods before it starts the first
container of the pod. `bandwidth_of` reads the bandwidth limits of a pod from its annotations (`pkg/util/bandwidth`).
`connect_to_port` connects to a port of a pod for port forwarding.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sampan.api.values.quantity import parse
from sampan.host.linux.network_namespace import run_in_network
from sampan.runtimes.config import PortMapping
from sampan.runtimes.contract import RuntimeFailure

INGRESS, EGRESS = "kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth"
_MIN_BITS_PER_S, _MAX_BITS_PER_S = 1_000, 1_000_000_000_000_000
_FAILED = "FailedCreatePodSandBox"
_CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodBandwidth:
    """The bandwidth limits of a pod."""

    ingress_bits_per_s: int = 0
    """The limit for traffic to the pod; 0 for none."""
    egress_bits_per_s: int = 0


UNLIMITED = PodBandwidth()


def bandwidth_of(annotations: Mapping[str, str]) -> PodBandwidth:
    """Return the limits of a pod with these annotations. Raise RuntimeFailure for an invalid value."""
    if INGRESS not in annotations and EGRESS not in annotations:
        return UNLIMITED
    return PodBandwidth(
        ingress_bits_per_s=_bits_per_s(annotations, INGRESS), egress_bits_per_s=_bits_per_s(annotations, EGRESS)
    )


def _bits_per_s(annotations: Mapping[str, str], name: str) -> int:
    if name not in annotations:
        return 0
    try:
        value = int(parse(annotations[name]).value())
    except ValueError as error:
        raise RuntimeFailure(_FAILED, f"annotation {name}: {error}") from None
    if value < _MIN_BITS_PER_S:
        raise RuntimeFailure(_FAILED, f"annotation {name}: resource is unreasonably small (< 1kbit)")
    if value > _MAX_BITS_PER_S:
        raise RuntimeFailure(_FAILED, f"annotation {name}: resource is unreasonably large (> 1Pbit)")
    return value


class PodNetwork(Protocol):
    """The pod network of one node. Operations raise RuntimeFailure."""

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        """Allocate the addresses of new sandboxes from these pod CIDRs."""

    async def attach(
        self, uid: str, namespace: Path, ports: Sequence[PortMapping], bandwidth: PodBandwidth = UNLIMITED
    ) -> Sequence[str]:
        """Connect the network namespace of a pod, whose loopback interface is up, and return the pod's addresses. A
        second call for the same pod returns the same addresses."""

    async def detach(self, uid: str) -> None:
        """Release the addresses and ports of the pod. Do nothing for an unknown pod."""

    def list_pod_uids(self) -> Sequence[str]:
        """Return the uids of all pods that hold addresses or ports."""

    def addresses(self, uid: str) -> Sequence[str]: ...


class EngineNetwork(Protocol):
    """The network configuration of an engine that connects pods through plugins. Operations raise RuntimeFailure."""

    async def apply(self, cidrs: Sequence[str]) -> None:
        """Configure the engine to allocate the addresses of new pods from these pod CIDRs."""

    async def hold(self) -> None:
        """Hold the pods that the engine has connected to their addresses. Return when that is in effect."""

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
        """Put the policies of a pod into effect for its addresses. Return when they are in effect."""

    async def release(self, uid: str) -> None:
        """Forget a pod that is disconnected."""

    async def remove_all(self) -> None:
        """Remove the rules of all policies, for a node that is removed and has no pods any more."""


class NoIsolation:
    """The PodIsolation of a network without network policies."""

    def adopt(self, uid: str, addresses: Sequence[str]) -> None:
        return

    async def isolate(self, uid: str, addresses: Sequence[str]) -> None:
        return

    async def release(self, uid: str) -> None:
        return

    async def remove_all(self) -> None:
        return


class NoNetwork:
    """The PodNetwork of a node without a pod network: each pod has only its loopback interface."""

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        return

    async def attach(
        self, uid: str, namespace: Path, ports: Sequence[PortMapping], bandwidth: PodBandwidth = UNLIMITED
    ) -> Sequence[str]:
        return ()

    async def detach(self, uid: str) -> None:
        return

    def list_pod_uids(self) -> Sequence[str]:
        return ()

    def addresses(self, uid: str) -> Sequence[str]:
        return ()


async def connect_to_port(port: int, network: Path | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a port on localhost in the network namespace at the path `network`, or in the namespace of the node if
    it is None."""

    def connect() -> socket.socket:
        return socket.create_connection(("localhost", port), timeout=_CONNECT_TIMEOUT_S)

    try:
        if network is None:
            return await asyncio.open_connection("localhost", port)
        link = await asyncio.to_thread(run_in_network, network, connect)
    except OSError as error:
        cause = error.strerror or str(error)
        text = f"failed to connect to localhost:{port} inside the pod: {cause}"
        raise RuntimeFailure("PortForward", text) from None
    try:
        link.setblocking(False)
        return await asyncio.open_connection(sock=link)
    except BaseException:
        link.close()
        raise
