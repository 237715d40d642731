"""The pod and node CIDRs that a cluster selects when no flag sets them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from sampan.cluster.cluster_cidrs import candidates, choose_pod_cidr, cluster_cidr, node_cidr, pod_cidr_of
from sampan.cluster.errors import ClusterError
from sampan.cluster.machine.host_locks import HostLocks
from sampan.cluster.nodes.nodes_config import NodesConfig, with_node_cidrs
from sampan.network import pods
from sampan.network.nodes import unsupported_reason


@pytest.fixture
def locks() -> Iterator[HostLocks]:
    held = HostLocks()
    yield held
    held.close()


def test_cluster_keeps_its_cidr_across_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: HostLocks
) -> None:
    first = cluster_cidr(tmp_path / "one", locks)
    assert first in candidates(str(tmp_path / "one"))
    monkeypatch.setattr(pods, "free_cidr", lambda candidates, bridge, take: "10.1.0.0/16")
    assert cluster_cidr(tmp_path / "one", locks) == first  # although the routes of its own bridge exist now
    assert cluster_cidr(tmp_path / "two", locks) == "10.1.0.0/16"


@pytest.mark.skipif(sys.platform != "linux", reason="host locks exist on Linux only")
def test_clusters_started_concurrently_get_different_cidrs(tmp_path: Path, locks: HostLocks) -> None:
    first = cluster_cidr(tmp_path / "one", locks)
    (tmp_path / "one/pod-range").unlink()
    other = HostLocks()
    again = cluster_cidr(tmp_path / "one", other)  # the first cluster has only its lock yet
    other.close()
    assert again in candidates(str(tmp_path / "one"))
    assert again != first


def test_order_of_candidate_cidrs_depends_on_the_directory() -> None:
    choices = [candidates(f"/clusters/{number}") for number in range(20)]
    assert len({choice[0] for choice in choices}) > 10
    assert len({frozenset(choice) for choice in choices}) == 1
    assert not any(IPv4Network(cidr).overlaps(IPv4Network("10.96.0.0/12")) for cidr in choices[0])  # services


def test_pod_cidr_is_the_numbered_subnet_of_the_cluster_cidr() -> None:
    assert [pod_cidr_of("10.244.0.0/16", number) for number in (0, 1, 255)] == [
        "10.244.0.0/24",
        "10.244.1.0/24",
        "10.244.255.0/24",
    ]


def test_own_pod_cidrs_of_different_nodes_differ() -> None:
    cidrs = {choose_pod_cidr(f"machine-{number}") for number in range(10)}
    assert len(cidrs) == 10
    assert all(IPv4Network(cidr).prefixlen == 24 for cidr in cidrs)
    assert choose_pod_cidr("machine-0") == choose_pod_cidr("machine-0")


def test_cidr_of_a_stopped_cluster_is_not_reused(tmp_path: Path, locks: HostLocks) -> None:
    preferred = candidates(str(tmp_path / "b" / "nodes"))[0]
    (tmp_path / "a" / "nodes").mkdir(parents=True)
    (tmp_path / "a" / "nodes" / "pod-range").write_text(f"{preferred}\n")
    assert cluster_cidr(tmp_path / "b" / "nodes", locks) != preferred


def test_node_cidr_is_kept_unless_another_cluster_holds_it(tmp_path: Path, locks: HostLocks) -> None:
    first = node_cidr(tmp_path, locks)
    assert IPv4Network(first).subnet_of(IPv4Network("172.30.0.0/16"))
    assert node_cidr(tmp_path, locks) == first
    other = HostLocks()
    assert node_cidr(tmp_path, other) != first
    other.close()


def test_cidr_of_another_running_cluster_is_rejected(tmp_path: Path, locks: HostLocks) -> None:
    if unsupported_reason():
        pytest.skip(unsupported_reason())
    locks.acquire("10.1.0.0/16")
    nodes = NodesConfig(count=1, runtime="oci", root=tmp_path, cluster_cidrs=["10.1.0.0/16"])
    other = HostLocks()
    with pytest.raises(ClusterError, match="--cluster-cidr: another cluster of this machine that is running uses 10"):
        with_node_cidrs(nodes, other)
    assert with_node_cidrs(nodes, locks).node_cidrs == [node_cidr(tmp_path, locks)]
    assert with_node_cidrs(replace(nodes, node_network="host"), locks).node_cidrs == ()
    docker = replace(nodes, node_network="own", runtime="docker")
    with pytest.raises(ClusterError, match=r"--node-network: .* the runtime docker uses the network of the machine"):
        with_node_cidrs(docker, locks)
