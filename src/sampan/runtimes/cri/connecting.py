"""Configure the network of an engine whose pods Sampan connects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.cri.about import is_network_ready
from sampan.runtimes.cri.client import CriClient, CriError
from sampan.runtimes.network import EngineNetwork

log = logging.getLogger(__name__)

_LOOKS, _LOOK_AGAIN_S = 200, 0.05


class Connecting:
    """Passes pod CIDRs to the engine. If `network` is None, the CNI configuration of the engine is left unchanged."""

    def __init__(self, *, client: CriClient, network: EngineNetwork | None) -> None:
        self._client, self._network = client, network
        self._cidrs: Sequence[str] = ()
        self._told: Sequence[str] = ()
        """The pod CIDRs that the engine uses."""
        self._turn = asyncio.Lock()

    def use(self, cidrs: Sequence[str]) -> None:
        self._cidrs = tuple(cidrs)

    async def ensure(self) -> None:
        """Apply changed pod CIDRs to the engine, and wait until its network is ready."""
        async with self._turn:
            cidrs = self._cidrs
            if not cidrs or cidrs == self._told:
                return
            if self._network is not None:
                await self._network.apply(cidrs)
                await self._taken_up()
            await self._tell(",".join(cidrs))
            self._told = cidrs

    async def _taken_up(self) -> None:
        for _ in range(_LOOKS):
            if is_network_ready(await self._client.runtime("Status")):
                return
            await asyncio.sleep(_LOOK_AGAIN_S)
        raise RuntimeFailure("NetworkPluginNotReady", "the engine does not take up the network's configuration")

    async def _tell(self, cidrs: str) -> None:
        """Send the pod CIDRs to the engine, which inserts them if it generates its CNI configuration from a
        template."""
        cri = self._client.schema
        config = cri.RuntimeConfig(network_config=cri.NetworkConfig(pod_cidr=cidrs))
        try:
            await self._client.runtime("UpdateRuntimeConfig", cri.UpdateRuntimeConfigRequest(runtime_config=config))
        except CriError as error:
            log.warning("cannot pass the pod CIDR to the container runtime: %s", error)
