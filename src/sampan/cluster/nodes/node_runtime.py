"""Create the runtime of a real node by its name."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from sampan.host.background_tasks import DetachedTasks
from sampan.host.clock import Clock
from sampan.host.durable_files import write_durably
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.kubelet.agent.kubelet import MakeRuntime
from sampan.machinery.extras import require
from sampan.network.bridge_marks import marked_bridge
from sampan.runtimes.contract import PodCallback, Runtime, RuntimeFailure
from sampan.runtimes.images.supply import ImageSupply
from sampan.runtimes.names import CRI, DOCKER, OCI, PROCESS
from sampan.runtimes.network import EngineNetwork, NoIsolation, NoNetwork, PodIsolation, PodNetwork

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """The configuration of the runtime of a node: the directories of its data, its network, and whether its pods
    outlive the kubelet."""

    node: str
    directory: Path
    images: Path
    endpoint: str = ""
    """The socket of the container engine, for the runtimes cri and docker."""
    cluster_cidrs: Sequence[str] = ()
    mtu: int = 0
    """The MTU of pods; 0 to use the MTU of the interface of the default route."""
    makes_network: bool = True
    """Whether Sampan configures the network of a CRI engine; otherwise its existing configuration is used."""
    namespace: NetworkNamespace = field(default_factory=NetworkNamespace)
    """The network namespace of the node. Only the runtime oci supports a namespace other than that of this process."""
    isolation: PodIsolation = field(default_factory=NoIsolation)
    """The object that puts network policies into effect before a pod is connected."""
    stops_pods: bool = False
    """Whether all pods are stopped with the kubelet; otherwise they keep running."""


class RuntimeRecord(msgspec.Struct):
    """The runtime of a node. It is saved in the directory of the node as long as the runtime may have pods."""

    runtime: str
    endpoint: str = ""


def read_runtime_record(directory: Path) -> RuntimeRecord | None:
    """Return the runtime in which an earlier kubelet of this node may have left pods."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_record_file(directory).read_bytes(), type=RuntimeRecord)
    return None


def runtime_maker(name: str, config: RuntimeConfig, clock: Clock) -> MakeRuntime:
    @asynccontextmanager
    async def make(on_pod_change: PodCallback) -> AsyncIterator[Runtime]:
        config.directory.mkdir(parents=True, exist_ok=True)
        record = _record_file(config.directory)
        write_durably(record, msgspec.json.encode(RuntimeRecord(name, config.endpoint)), mode=0o600)
        async with AsyncExitStack() as stack:
            runtime = await stack.enter_async_context(_MAKERS[name](config, clock, on_pod_change))
            try:
                yield runtime
            finally:
                await stack.aclose()
                if config.stops_pods:
                    record.unlink(missing_ok=True)

    return make


def _record_file(directory: Path) -> Path:
    return directory / "runtime.json"


@asynccontextmanager
async def _oci(config: RuntimeConfig, clock: Clock, on_pod_change: PodCallback) -> AsyncIterator[Runtime]:
    from sampan.runtimes.images import ImageStore
    from sampan.runtimes.images.pull import ImagePuller
    from sampan.runtimes.oci import OciRuntime
    from sampan.runtimes.oci.binary import find_programs

    programs, store = find_programs(), ImageStore(config.images)
    if not programs:
        raise RuntimeFailure("RuntimeError", "there is neither crun nor runc")
    async with AsyncExitStack() as stack:
        puller = await stack.enter_async_context(ImagePuller(store=store, clock=clock))
        network = await stack.enter_async_context(_network(config, clock))
        runtime = OciRuntime(
            directory=config.directory / OCI,
            images=store,
            network=network,
            programs=programs,
            clock=clock,
            on_pod_change=on_pod_change,
            puller=puller,
            node_network=config.namespace.path,
        )
        await stack.enter_async_context(runtime)
        if config.stops_pods:
            stack.push_async_callback(runtime.shut_down)
        yield runtime


@asynccontextmanager
async def _cri(config: RuntimeConfig, clock: Clock, on_pod_change: PodCallback) -> AsyncIterator[Runtime]:
    require("grpc")
    from sampan.network.pods import bridge_for
    from sampan.runtimes.cri import CriRuntime

    network = await _engine_network(config, clock) if config.makes_network else None
    bridge = bridge_for(str(config.directory))
    runtime = CriRuntime(
        endpoint=config.endpoint,
        directory=config.directory / CRI,
        node=config.node,
        clock=clock,
        on_pod_change=on_pod_change,
        supply=_image_supply(config),
        network=network,
        isolation=config.isolation,
    )
    async with AsyncExitStack() as stack:
        stack.enter_context(marked_bridge(bridge))
        if network is not None:
            if config.stops_pods:
                stack.push_async_callback(network.remove_all)
            checks = DetachedTasks("a container runtime")
            checks.start(network.run())
            stack.push_async_callback(checks.stop)
        await stack.enter_async_context(runtime)
        if config.stops_pods:
            stack.push_async_callback(runtime.shut_down)
        yield runtime


@asynccontextmanager
async def _docker(config: RuntimeConfig, clock: Clock, on_pod_change: PodCallback) -> AsyncIterator[Runtime]:
    from sampan.runtimes.docker import DockerRuntime

    async with AsyncExitStack() as stack:
        runtime = DockerRuntime(
            socket=config.endpoint,
            directory=config.directory / DOCKER,
            node=config.node,
            clock=clock,
            on_pod_change=on_pod_change,
            supply=_image_supply(config),
            network=await stack.enter_async_context(_network(config, clock)),
        )
        await stack.enter_async_context(runtime)
        if config.stops_pods:
            stack.push_async_callback(runtime.shut_down)
        yield runtime


@asynccontextmanager
async def _process(config: RuntimeConfig, clock: Clock, on_pod_change: PodCallback) -> AsyncIterator[Runtime]:
    from sampan.kubelet.agent.machine import find_machine_addresses
    from sampan.runtimes.process import ProcessRuntime

    directory, address = config.directory / PROCESS, find_machine_addresses()[0]
    async with ProcessRuntime(
        directory=directory, clock=clock, on_pod_change=on_pod_change, address=address
    ) as runtime:
        try:
            yield runtime
        finally:
            if config.stops_pods:
                await runtime.shut_down()


_MAKERS: dict[str, Callable[[RuntimeConfig, Clock, PodCallback], AbstractAsyncContextManager[Runtime]]] = {
    OCI: _oci,
    PROCESS: _process,
    CRI: _cri,
    DOCKER: _docker,
}


def _image_supply(config: RuntimeConfig) -> ImageSupply:
    """Return the images that were loaded with `sampan image load`, which are passed to the engine when a pod uses
    them."""
    from sampan.runtimes.images import ImageStore

    return ImageSupply(directory=config.directory, store=ImageStore(config.images))


async def _engine_network(config: RuntimeConfig, clock: Clock) -> EngineNetwork:
    """Return a network that is configured in the CNI directory of the engine."""
    from sampan.network.pods import BridgeConfig, CniNetwork, bridge_for
    from sampan.runtimes.cri import settings_of

    settings = await settings_of(config.endpoint)
    return CniNetwork(
        config=BridgeConfig(
            bridge=bridge_for(str(config.directory)), cluster_cidrs=config.cluster_cidrs, mtu=config.mtu
        ),
        state=config.directory / "network",
        clock=clock,
        directory=settings.network_directory,
        plugin_directories=settings.plugin_directories,
    )


@asynccontextmanager
async def _network(config: RuntimeConfig, clock: Clock) -> AsyncIterator[PodNetwork]:
    """Yield the pod network. If this machine does not support it, yield a network with only loopback interfaces."""
    from sampan.network.pods import BridgeConfig, BridgeNetwork, bridge_for, unsupported_reason

    if missing := unsupported_reason():
        log.warning("pods will have no network: %s", missing)
        yield NoNetwork()
        return
    settings = BridgeConfig(
        bridge=bridge_for(str(config.directory)), cluster_cidrs=config.cluster_cidrs, mtu=config.mtu
    )
    async with BridgeNetwork(
        directory=config.directory / "network",
        config=settings,
        clock=clock,
        namespace=config.namespace,
        isolation=config.isolation,
    ) as network:
        checks = DetachedTasks("a container runtime")
        checks.start(network.run())
        try:
            yield network
        finally:
            await checks.stop()
            if config.stops_pods:
                await network.remove_all()
