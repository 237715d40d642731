"""The real nodes of a cluster in one process: each with a kubelet, folders, groups and a runtime of its own."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from sampan.cli.nodes_config import OCI, NodesConfig
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.kubelet import Kubelet, MakeRuntime
from sampan.kubelet.config import PORT
from sampan.machinery.activity import Activity
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.machinery.flight_recorder import FlightRecorder
from sampan.runtimes.contract import Runtime, Told
from sampan.runtimes.network import NoNetwork, PodNetwork

log = logging.getLogger(__name__)

_PATIENCE_S = 30


class RealNodes:
    """`run()` until cancelled: then everything that the nodes run ends."""

    def __init__(
        self,
        *,
        config: NodesConfig,
        client_for: Callable[[str], Client],
        clock: Clock,
        activity: Activity,
        recorder: FlightRecorder | None,
    ) -> None:
        assert config.root is not None
        self._config = config
        self.kubelets = [
            Kubelet(
                config=_agent_config(config, config.root, number),
                client=client_for(f"node-{number}"),
                clock=clock,
                activity=activity,
                recorder=recorder,
                make_runtime=_runtime_maker(config, config.root / f"node-{number}", clock),
            )
            for number in range(config.real_count)
        ]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for kubelet in self.kubelets:
                group.create_task(kubelet.run())

    async def ready(self) -> None:
        """Until they are registered, if that does not take too long."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                for kubelet in self.kubelets:
                    await kubelet.ready.wait()
        except TimeoutError:
            log.warning("not all nodes run yet")


def _agent_config(config: NodesConfig, root: Path, number: int) -> AgentConfig:
    name = f"node-{number}"
    mark = hashlib.blake2b(str(root).encode(), digest_size=4).hexdigest()
    return AgentConfig(
        name=name,
        root=root / name / "kubelet",
        logs=root / name / "logs",
        port=PORT + number,
        cgroup_root=f"/sampan-{mark}-{name}",
        has_cgroups_per_qos=os.geteuid() == 0,
        ends_pods=True,
        needs_pod_cidr=config.has_pod_ranges,
        pod_cidrs=() if config.has_pod_ranges else (f"10.244.{number}.0/24",),
        serializes_pulls=False,
    )


def _runtime_maker(config: NodesConfig, folder: Path, clock: Clock) -> MakeRuntime:
    @asynccontextmanager
    async def make(told: Told) -> AsyncIterator[Runtime]:
        if config.runtime == OCI:
            async with _oci(config, folder, clock, told) as runtime:
                yield runtime
        else:
            raise NotImplementedError(config.runtime)

    return make


@asynccontextmanager
async def _oci(config: NodesConfig, folder: Path, clock: Clock, told: Told) -> AsyncIterator[Runtime]:
    from sampan.runtimes.images import ImageStore
    from sampan.runtimes.images.pull import Puller
    from sampan.runtimes.oci import OciRuntime
    from sampan.runtimes.oci.binary import find_binary

    assert config.images is not None
    binary, store = find_binary(), ImageStore(config.images)
    assert binary is not None
    async with AsyncExitStack() as stack:
        puller = await stack.enter_async_context(Puller(store=store, clock=clock))
        network = await stack.enter_async_context(_network(config, folder, clock))
        runtime = OciRuntime(
            folder=folder / OCI,
            images=store,
            network=network,
            binary=binary,
            clock=clock,
            told=told,
            puller=puller,
        )
        async with runtime:
            try:
                yield runtime
            finally:
                await runtime.shut_down()


@asynccontextmanager
async def _network(config: NodesConfig, folder: Path, clock: Clock) -> AsyncIterator[PodNetwork]:
    """Of a machine that cannot have one, pods have only themselves to talk to."""
    from sampan.network.pods import BridgeConfig, BridgeNetwork, bridge_for, lacking

    if missing := lacking():
        log.warning("pods have no network: %s", missing)
        yield NoNetwork()
        return
    settings = BridgeConfig(bridge=bridge_for(str(folder)), cluster_cidrs=config.cluster_cidrs)
    async with BridgeNetwork(folder=folder / "network", config=settings, clock=clock) as network:
        checks = asyncio.ensure_future(network.run())
        try:
            yield network
        finally:
            checks.cancel()
            await network.remove_all()


__all__ = ["RealNodes"]
