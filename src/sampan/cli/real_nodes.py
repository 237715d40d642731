"""The real nodes of a cluster in one process: each with a kubelet, folders, groups and a runtime of its own."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path

from sampan.cli.kubelet_ports import MakePorts
from sampan.cli.node_runtime import RuntimePlaces, runtime_maker
from sampan.cli.nodes_config import NodesConfig
from sampan.cli.pod_range import node_range, pod_range
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.kubelet import Kubelet
from sampan.kubelet.config import PORT
from sampan.kubelet.server.ports import serve_kubelet
from sampan.machinery.activity import Activity
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.machinery.flight_recorder import FlightRecorder

log = logging.getLogger(__name__)

_PATIENCE_S = 30
_EVICTION = {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"}
"""On somebody's own machine, whose disk is often rather full."""


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
        make_ports: MakePorts | None = None,
    ) -> None:
        """Without `make_ports` nobody looks in but the API server of the same process."""
        self._make_ports = make_ports
        assert config.root is not None
        self._config = config
        self.kubelets = [
            Kubelet(
                config=_agent_config(config, config.root, number),
                client=client_for(f"node-{number}"),
                clock=clock,
                activity=activity,
                recorder=recorder,
                make_runtime=runtime_maker(config.runtime, _places(config, config.root / f"node-{number}"), clock),
            )
            for number in range(config.real_count)
        ]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for kubelet in self.kubelets:
                group.create_task(kubelet.run())
                if self._make_ports is not None:
                    group.create_task(self._serve(kubelet, self._make_ports))

    async def _serve(self, kubelet: Kubelet, make_ports: MakePorts) -> None:
        await kubelet.ready.wait()
        status = kubelet.node.node.status
        addresses = [each.address for each in status.addresses if each.type == "InternalIP"]
        await serve_kubelet(kubelet, await asyncio.to_thread(make_ports, kubelet.config, addresses))

    async def ready(self) -> None:
        """Until they are registered, if that does not take too long."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                for kubelet in self.kubelets:
                    await kubelet.ready.wait()
        except TimeoutError:
            log.warning("not all nodes run yet")


def _places(config: NodesConfig, folder: Path) -> RuntimePlaces:
    assert config.images is not None
    return RuntimePlaces(
        node=folder.name,
        folder=folder,
        images=config.images,
        endpoint=config.endpoint,
        cluster_cidrs=config.cluster_cidrs,
        ends=True,
    )


def _port(wanted: int) -> int:
    """The usual one, or where another cluster of this machine has it, any that is free."""
    for number in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", number))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    return wanted


def group_of(root: Path, name: str) -> str:
    """Below which a node of the cluster whose nodes are in `root` has its control groups."""
    mark = hashlib.blake2b(str(root).encode(), digest_size=4).hexdigest()
    return f"/sampan-{mark}-{name}"


def _agent_config(config: NodesConfig, root: Path, number: int) -> AgentConfig:
    name = f"node-{number}"
    return AgentConfig(
        name=name,
        root=root / name / "kubelet",
        logs=root / name / "logs",
        port=_port(PORT + number),
        cgroup_root=group_of(root, name),
        has_cgroups_per_qos=os.geteuid() == 0,
        eviction_hard=_EVICTION,
        image_gc_high=99,
        image_gc_low=98,
        images=config.images,
        ends_pods=True,
        needs_pod_cidr=config.has_pod_ranges,
        pod_cidrs=() if config.has_pod_ranges else (node_range(pod_range(config.root), number),),
        serializes_pulls=False,
    )


__all__ = ["RealNodes", "group_of"]
