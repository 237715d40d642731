"""What runs the pods of a real node, made by its name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sampan.cli.nodes_config import OCI, PROCESS
from sampan.kubelet.agent.kubelet import MakeRuntime
from sampan.machinery.clock import Clock
from sampan.runtimes.choice import CRI, DOCKER
from sampan.runtimes.contract import Runtime, Told
from sampan.runtimes.network import NoNetwork, PodNetwork

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePlaces:
    """Where a node's runtime keeps what it has, and what becomes of that when the kubelet ends."""

    node: str
    folder: Path
    images: Path
    endpoint: str = ""
    """Of cri and docker, the socket."""
    cluster_cidrs: Sequence[str] = ()
    ends: bool = False
    """Everything that runs ends with the kubelet; else it goes on."""


def runtime_maker(name: str, places: RuntimePlaces, clock: Clock) -> MakeRuntime:
    made = {OCI: _oci, PROCESS: _process, CRI: _cri, DOCKER: _docker}[name]

    @asynccontextmanager
    async def make(told: Told) -> AsyncIterator[Runtime]:
        async with made(places, clock, told) as runtime:
            yield runtime

    return make


@asynccontextmanager
async def _oci(places: RuntimePlaces, clock: Clock, told: Told) -> AsyncIterator[Runtime]:
    from sampan.runtimes.contract import RuntimeFailure
    from sampan.runtimes.images import ImageStore
    from sampan.runtimes.images.pull import Puller
    from sampan.runtimes.oci import OciRuntime
    from sampan.runtimes.oci.binary import find_binary

    binary, store = find_binary(), ImageStore(places.images)
    if binary is None:
        raise RuntimeFailure("RuntimeError", "there is neither crun nor runc")
    async with AsyncExitStack() as stack:
        puller = await stack.enter_async_context(Puller(store=store, clock=clock))
        network = await stack.enter_async_context(_network(places, clock))
        runtime = OciRuntime(
            folder=places.folder / OCI,
            images=store,
            network=network,
            binary=binary,
            clock=clock,
            told=told,
            puller=puller,
        )
        await stack.enter_async_context(runtime)
        if places.ends:
            stack.push_async_callback(runtime.shut_down)
        yield runtime


@asynccontextmanager
async def _cri(places: RuntimePlaces, clock: Clock, told: Told) -> AsyncIterator[Runtime]:
    from sampan.runtimes.cri import CriRuntime

    folder, node = places.folder / CRI, places.node
    async with CriRuntime(endpoint=places.endpoint, folder=folder, node=node, clock=clock, told=told) as runtime:
        try:
            yield runtime
        finally:
            if places.ends:
                await runtime.shut_down()


@asynccontextmanager
async def _docker(places: RuntimePlaces, clock: Clock, told: Told) -> AsyncIterator[Runtime]:
    from sampan.runtimes.docker import DockerRuntime

    folder, node = places.folder / DOCKER, places.node
    socket = places.endpoint.removeprefix("unix://")
    async with DockerRuntime(socket=socket, folder=folder, node=node, clock=clock, told=told) as runtime:
        try:
            yield runtime
        finally:
            if places.ends:
                await runtime.shut_down()


@asynccontextmanager
async def _process(places: RuntimePlaces, clock: Clock, told: Told) -> AsyncIterator[Runtime]:
    from sampan.kubelet.agent.machine import own_addresses
    from sampan.runtimes.process import ProcessRuntime

    folder, address = places.folder / PROCESS, own_addresses()[0]
    async with ProcessRuntime(folder=folder, clock=clock, told=told, address=address) as runtime:
        try:
            yield runtime
        finally:
            if places.ends:
                await runtime.shut_down()


@asynccontextmanager
async def _network(places: RuntimePlaces, clock: Clock) -> AsyncIterator[PodNetwork]:
    """Of a machine that cannot have one, pods have only themselves to talk to."""
    from sampan.network.pods import BridgeConfig, BridgeNetwork, bridge_for, lacking

    if missing := lacking():
        log.warning("pods have no network: %s", missing)
        yield NoNetwork()
        return
    settings = BridgeConfig(bridge=bridge_for(str(places.folder)), cluster_cidrs=places.cluster_cidrs)
    async with BridgeNetwork(folder=places.folder / "network", config=settings, clock=clock) as network:
        checks = asyncio.ensure_future(network.run())
        try:
            yield network
        finally:
            checks.cancel()
            if places.ends:
                await network.remove_all()


__all__ = ["RuntimePlaces", "runtime_maker"]
