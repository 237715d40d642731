"""Seeing that the engine knows how to connect pods, where Sampan is to tell it."""

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
    """Without a `network` the engine's own configuration is left alone."""

    def __init__(self, *, client: CriClient, network: EngineNetwork | None) -> None:
        self._client, self._network = client, network
        self._cidrs: Sequence[str] = ()
        self._told: Sequence[str] = ()
        """What the engine knows of."""
        self._turn = asyncio.Lock()

    def use(self, cidrs: Sequence[str]) -> None:
        self._cidrs = tuple(cidrs)

    async def ensure(self) -> None:
        """Tell the engine what it does not know yet, and wait until it has taken it up."""
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
        """Engines that make a configuration of their own by a pattern fill it in."""
        cri = self._client.schema
        config = cri.RuntimeConfig(network_config=cri.NetworkConfig(pod_cidr=cidrs))
        try:
            await self._client.runtime("UpdateRuntimeConfig", cri.UpdateRuntimeConfigRequest(runtime_config=config))
        except CriError as fault:
            log.warning("cannot pass the pod CIDR to the container runtime: %s", fault)


__all__ = ["Connecting"]
