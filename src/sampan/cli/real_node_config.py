"""The configuration of the kubelets of `sampan up`: directories, ports, cgroups and limits."""

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
"""Low eviction thresholds, as the disk of a personal machine is often rather full."""
_NAMED = 100
"""The first number for nodes whose names do not contain one."""


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
    """Return the number in the name of a node, or else one derived from a hash of its name."""
    end = name.removeprefix(NAME_PREFIX)
    if name.startswith(NAME_PREFIX) and end.isdecimal():
        return int(end)
    return _NAMED + int(hashlib.blake2b(name.encode(), digest_size=2).hexdigest(), 16) % _NAMED


def group_of(root: Path, name: str) -> str:
    """Return the root cgroup of a node of the cluster whose nodes are in `root`."""
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
    """Return the default port, or any free one if another cluster of this machine uses it."""
    for number in (wanted, 0) if claims.take(f"port {wanted}") else (0,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", number))
            except (OSError, OverflowError):  # the port of a node with a high number may be out of range
                continue
            return int(probe.getsockname()[1])
    return wanted
