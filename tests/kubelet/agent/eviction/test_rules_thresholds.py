"""Nodes of personal machines evict at absolute amounts: a rather full disk evicts nothing. Other kubelets have the
thresholds of the real one."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sampan.cli.flags.kubelet import agent_config as flags_config
from sampan.cli.flags.kubelet import settings
from sampan.cli.joined_node import JoinedNode
from sampan.cli.local_cluster.cluster_dir import ClusterDir
from sampan.cluster.join.record import JoinRecord
from sampan.cluster.machine.host_locks import HostLocks
from sampan.cluster.nodes.nodes_config import NodesConfig
from sampan.cluster.nodes.real_nodes import agent_config
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.kubelet.agent.config import IMAGE_GC_OFF, LOCAL_HARD_EVICTION, AgentConfig
from sampan.kubelet.agent.eviction.rules import SignalObservation, shortage, thresholds
from sampan.network.nodes import NodeAttachment
from sampan.testing import Cluster

GIB = 1 << 30


def observe_disk(free_bytes: int, free_inodes: int = 1 << 20) -> dict[str, SignalObservation]:
    """The observations of a machine with a disk of 252 GiB."""
    disk, inodes = SignalObservation(free_bytes, 252 * GIB), SignalObservation(free_inodes, 16 << 20)
    observations = {f"{name}.available": disk for name in ("nodefs", "imagefs")}
    observations |= {f"{name}.inodesFree": inodes for name in ("nodefs", "imagefs")}
    return {**observations, "memory.available": SignalObservation(GIB, 64 * GIB)}


def list_shortages(config: AgentConfig, observations: dict[str, SignalObservation]) -> list[str]:
    shortages = [shortage(threshold, observations, with_reclaim=False) for threshold in thresholds(config)]
    return [short.signal for short in shortages if short is not None]


@pytest.fixture(params=["up", "join"])
def local_config(request: pytest.FixtureRequest, tmp_path: Path) -> AgentConfig:
    """The configuration of the kubelet of a node of `sampan up`, and of one that joined a cluster."""
    if request.param == "join":
        record = JoinRecord(server="https://127.0.0.1:6443", node="machine-b")
        node = JoinedNode(directory=ClusterDir(tmp_path), name="b", record=record, on_ready=lambda note: None)
        return node._agent_config(["192.0.2.1"])
    place = NodeAttachment(
        node="node-0", directory=tmp_path / "node-0", namespace=NetworkNamespace(), addresses=["192.0.2.1"]
    )
    with closing(HostLocks()) as locks:
        return agent_config(NodesConfig(count=1, runtime="oci", root=tmp_path), tmp_path, place, locks)


def test_local_node_evicts_at_amounts(local_config: AgentConfig) -> None:
    for free_bytes in (32 * GIB, 2 * GIB, GIB):
        assert list_shortages(local_config, observe_disk(free_bytes, free_inodes=3000)) == []
    assert list_shortages(local_config, observe_disk(100 << 20)) == ["nodefs.available", "imagefs.available"]
    assert list_shortages(local_config, observe_disk(GIB, 1000)) == ["nodefs.inodesFree", "imagefs.inodesFree"]
    memory = {"memory.available": SignalObservation(50 << 20, 64 * GIB)}
    assert list_shortages(local_config, observe_disk(GIB) | memory) == ["memory.available"]
    assert local_config.image_gc_high == IMAGE_GC_OFF


def test_kubelet_with_the_flags_of_the_real_one_keeps_its_thresholds() -> None:
    config = flags_config(settings({}), Path("/r"), Path("/l"))
    assert list_shortages(config, observe_disk(32 * GIB)) == ["imagefs.available"]
    assert (config.image_gc_high, config.image_gc_low) == (85, 80)


async def test_thresholds_of_a_cluster_are_those_of_a_local_node() -> None:
    async with Cluster(nodes=1, runtime="process") as cluster:
        assert cluster.assembly.real_nodes is not None
        (kubelet,) = cluster.assembly.real_nodes.kubelets
        assert kubelet.config.eviction_hard == LOCAL_HARD_EVICTION
