"""Create the runtime of a real node by its name."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sampan.kubelet.agent.kubelet import MakeRuntime
from sampan.machinery.clock import Clock
from sampan.runtimes.background import Background
from sampan.runtimes.contract import Runtime, RuntimeFailure, Told
from sampan.runtimes.images.supply import Supply
from sampan.runtimes.names import CRI, DOCKER, OCI, PROCESS
from sampan.runtimes.network import EngineNetwork, NoNetwork, PodNetwork

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePlaces:
    """Where the runtime of a node keeps its data, and whether its pods outlive the kubelet."""

    node: str
    folder: Path
    images: Path
    endpoint: str = ""
    """The socket of cri and docker."""
    cluster_cidrs: Sequence[str] = ()
    makes_network: bool = True
    """Whether Sampan configures the network of a CRI engine; otherwise its existing configuration is used."""
    ends: bool = False
    """Whether all pods are stopped with the kubelet; otherwise they keep running."""


class RuntimeNote(msgspec.Struct):
    """The runtime of a node. It is saved in the directory of the node as long as the runtime may have pods."""

    runtime: str
    endpoint: str = ""


def left_runtime(folder: Path) -> RuntimeNote | None:
    """Return the runtime in which an earlier kubelet of this node may have left pods."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_note(folder).read_bytes(), type=RuntimeNote)
    return None


def runtime_maker(name: str, places: RuntimePlaces, clock: Clock) -> MakeRuntime:
    @asynccontextmanager
    async def make(told: Told) -> AsyncIterator[Runtime]:
        places.folder.mkdir(parents=True, exist_ok=True)
        note = _note(places.folder)
        note.write_bytes(msgspec.json.encode(RuntimeNote(name, places.endpoint)))
        async with AsyncExitStack() as stack:
            runtime = await stack.enter_async_context(_MAKERS[name](places, clock, told))
            try:
                yield runtime
            finally:
                await stack.aclose()
                if places.ends:
                    note.unlink(missing_ok=True)

    return make


def _note(folder: Path) -> Path:
    return folder / "runtime.json"


@asynccontextmanager
async def _oci(places: RuntimePlaces, clock: Clock, told: Told) -> AsyncIterator[Runtime]:
    from sampan.runtimes.images import ImageStore
    from sampan.runtimes.images.pull import Puller
    from sampan.runtimes.oci import OciRuntime
    from sampan.runtimes.oci.binary import find_programs

    programs, store = find_programs(), ImageStore(places.images)
    if not programs:
        raise RuntimeFailure("RuntimeError", "there is neither crun nor runc")
    async with AsyncExitStack() as stack:
        puller = await stack.enter_async_context(Puller(store=store, clock=clock))
        network = await stack.enter_async_context(_network(places, clock))
        runtime = OciRuntime(
            directory=places.folder / OCI,
            images=store,
            network=network,
            programs=programs,
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

    network = await _engine_network(places) if places.makes_network else None
    runtime = CriRuntime(
        endpoint=places.endpoint,
        directory=places.folder / CRI,
        node=places.node,
        clock=clock,
        told=told,
        supply=_supply(places),
        network=network,
    )
    async with AsyncExitStack() as stack:
        if places.ends and network is not None:
            stack.push_async_callback(network.remove_all)
        await stack.enter_async_context(runtime)
        if places.ends:
            stack.push_async_callback(runtime.shut_down)
        yield runtime


@asynccontextmanager
async def _docker(places: RuntimePlaces, clock: Clock, told: Told) -> AsyncIterator[Runtime]:
    from sampan.runtimes.docker import DockerRuntime

    async with AsyncExitStack() as stack:
        runtime = DockerRuntime(
            socket=places.endpoint,
            directory=places.folder / DOCKER,
            node=places.node,
            clock=clock,
            told=told,
            supply=_supply(places),
            network=await stack.enter_async_context(_network(places, clock)),
        )
        await stack.enter_async_context(runtime)
        if places.ends:
            stack.push_async_callback(runtime.shut_down)
        yield runtime


@asynccontextmanager
async def _process(places: RuntimePlaces, clock: Clock, told: Told) -> AsyncIterator[Runtime]:
    from sampan.kubelet.agent.machine import own_addresses
    from sampan.runtimes.process import ProcessRuntime

    directory, address = places.folder / PROCESS, own_addresses()[0]
    async with ProcessRuntime(directory=directory, clock=clock, told=told, address=address) as runtime:
        try:
            yield runtime
        finally:
            if places.ends:
                await runtime.shut_down()


_MAKERS: dict[str, Callable[[RuntimePlaces, Clock, Told], AbstractAsyncContextManager[Runtime]]] = {
    OCI: _oci,
    PROCESS: _process,
    CRI: _cri,
    DOCKER: _docker,
}


def _supply(places: RuntimePlaces) -> Supply:
    """Return the images that were loaded with `sampan image load`, which are passed to the engine when a pod uses
    them."""
    from sampan.runtimes.images import ImageStore

    return Supply(directory=places.folder, store=ImageStore(places.images))


async def _engine_network(places: RuntimePlaces) -> EngineNetwork:
    """Return a network that is configured in the CNI directory of the engine."""
    from sampan.network.pods import BridgeConfig, CniNetwork, bridge_for
    from sampan.runtimes.cri import setting_of

    settings = await setting_of(places.endpoint)
    return CniNetwork(
        config=BridgeConfig(bridge=bridge_for(str(places.folder)), cluster_cidrs=places.cluster_cidrs),
        state=places.folder / "network",
        directory=settings.network_directory,
        plugin_directories=settings.plugin_directories,
    )


@asynccontextmanager
async def _network(places: RuntimePlaces, clock: Clock) -> AsyncIterator[PodNetwork]:
    """Yield the pod network, or one with only loopback interfaces if this machine does not support it."""
    from sampan.network.pods import BridgeConfig, BridgeNetwork, bridge_for, lacking

    if missing := lacking():
        log.warning("pods will have no network: %s", missing)
        yield NoNetwork()
        return
    settings = BridgeConfig(bridge=bridge_for(str(places.folder)), cluster_cidrs=places.cluster_cidrs)
    async with BridgeNetwork(directory=places.folder / "network", config=settings, clock=clock) as network:
        checks = Background()
        checks.begin(network.run())
        try:
            yield network
        finally:
            await checks.end()
            if places.ends:
                await network.remove_all()
