"""What the kubelet of a real node of `sampan up` is told: where it keeps its data, where it is reached, who may run."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

from sampan.cli.claims import Claims
from sampan.cli.node_runtime import RuntimePlaces
from sampan.cli.nodes_config import NodesConfig
from sampan.cli.pod_range import node_range, pod_range
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.config import PORT
from sampan.kubelet.hollow_nodes import NAME_PREFIX, RUNTIME

_EVICTION = {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"}
"""On somebody's own machine, whose disk is often rather full."""
_NAMED = 100
"""The numbers of nodes with names of their own begin after these."""


def places_of(config: NodesConfig, folder: Path) -> RuntimePlaces:
    assert config.images is not None
    return RuntimePlaces(
        node=folder.name,
        folder=folder,
        images=config.images,
        endpoint=config.endpoint,
        cluster_cidrs=config.cluster_cidrs,
        ends=True,
    )


def number_of(name: str) -> int:
    """That in its name; of others one that their name has by chance."""
    end = name.removeprefix(NAME_PREFIX)
    if name.startswith(NAME_PREFIX) and end.isdecimal():
        return int(end)
    return _NAMED + int(hashlib.blake2b(name.encode(), digest_size=2).hexdigest(), 16) % _NAMED


def group_of(root: Path, name: str) -> str:
    """Below which a node of the cluster whose nodes are in `root` has its control groups."""
    mark = hashlib.blake2b(str(root).encode(), digest_size=4).hexdigest()
    return f"/sampan-{mark}-{name}"


def agent_config(config: NodesConfig, root: Path, name: str, claims: Claims) -> AgentConfig:
    number = number_of(name)
    return AgentConfig(
        name=name,
        root=root / name / "kubelet",
        logs=root / name / "logs",
        annotations={RUNTIME: config.runtime},
        port=_port(PORT + number, claims),
        cgroup_root=group_of(root, name),
        has_cgroups_per_qos=os.geteuid() == 0,
        eviction_hard=_EVICTION,
        image_gc_high=99,
        image_gc_low=98,
        images=config.images,
        ends_pods=True,
        needs_pod_cidr=config.has_pod_ranges,
        pod_cidrs=() if config.has_pod_ranges else (node_range(pod_range(config.root, claims), number % 256),),
        serializes_pulls=False,
    )


def _port(wanted: int, claims: Claims) -> int:
    """The usual one, or where another cluster of this machine has it, any that is free."""
    for number in (wanted, 0) if claims.take(f"port {wanted}") else (0,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", number))
            except (OSError, OverflowError):  # the number of a node may be beyond all ports
                continue
            return int(probe.getsockname()[1])
    return wanted


__all__ = ["agent_config", "group_of", "places_of"]
