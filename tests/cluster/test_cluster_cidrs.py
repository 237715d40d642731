"""Where pods' addresses come from when nobody says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from sampan.cluster.cluster_cidrs import candidates, cluster_cidr, node_cidr, own_pod_cidr, pod_cidr_of
from sampan.cluster.errors import ClusterError
from sampan.cluster.machine.host_locks import HostLocks
from sampan.cluster.nodes.nodes_config import NodesConfig, with_node_cidrs
from sampan.network.nodes import unsupported_reason


@pytest.fixture
def claims() -> Iterator[HostLocks]:
    host_locks = HostLocks()
    yield host_locks
    host_locks.close()


def test_a_cluster_keeps_its_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claims: HostLocks) -> None:
    first = cluster_cidr(tmp_path / "one", claims)
    assert first in candidates(str(tmp_path / "one"))
    monkeypatch.setattr("sampan.network.pods.free_cidr", lambda candidates, bridge, take: "10.1.0.0/16")
    assert cluster_cidr(tmp_path / "one", claims) == first  # though its own routes are there now
    assert cluster_cidr(tmp_path / "two", claims) == "10.1.0.0/16"


@pytest.mark.skipif(sys.platform != "linux", reason="claims are of Linux")
def test_clusters_that_begin_at_the_same_moment_take_different_ranges(tmp_path: Path, claims: HostLocks) -> None:
    first = cluster_cidr(tmp_path / "one", claims)
    (tmp_path / "one/pod-range").unlink()
    other = HostLocks()
    again = cluster_cidr(tmp_path / "one", other)  # nothing of the first is there yet but its claim
    other.close()
    assert again in candidates(str(tmp_path / "one"))
    assert again != first


def test_clusters_begin_to_look_at_different_places() -> None:
    choices = [candidates(f"/clusters/{number}") for number in range(20)]
    assert len({choice[0] for choice in choices}) > 10
    assert len({frozenset(choice) for choice in choices}) == 1
    assert not any(IPv4Network(cidr).overlaps(IPv4Network("10.96.0.0/12")) for cidr in choices[0])  # services


def test_nodes_that_are_given_none() -> None:
    assert [pod_cidr_of("10.244.0.0/16", number) for number in (0, 1, 255)] == [
        "10.244.0.0/24",
        "10.244.1.0/24",
        "10.244.255.0/24",
    ]


def test_nodes_that_take_one_themselves_take_different_ones() -> None:
    cidrs = {own_pod_cidr(f"machine-{number}") for number in range(10)}
    assert len(cidrs) == 10
    assert all(IPv4Network(cidr).prefixlen == 24 for cidr in cidrs)
    assert own_pod_cidr("machine-0") == own_pod_cidr("machine-0")


def test_a_stopped_cluster_keeps_its_range_to_itself(tmp_path: Path, claims: HostLocks) -> None:
    begin = candidates(str(tmp_path / "b" / "nodes"))[0]
    (tmp_path / "a" / "nodes").mkdir(parents=True)
    (tmp_path / "a" / "nodes" / "pod-range").write_text(f"{begin}\n")
    assert cluster_cidr(tmp_path / "b" / "nodes", claims) != begin


def test_a_node_range_is_kept_unless_another_cluster_has_it(tmp_path: Path, claims: HostLocks) -> None:
    first = node_cidr(tmp_path, claims)
    assert IPv4Network(first).subnet_of(IPv4Network("172.30.0.0/16"))
    assert node_cidr(tmp_path, claims) == first
    other = HostLocks()
    assert node_cidr(tmp_path, other) != first
    other.close()


def test_two_running_clusters_cannot_have_the_same_range(tmp_path: Path, claims: HostLocks) -> None:
    if unsupported_reason():
        pytest.skip(unsupported_reason())
    claims.acquire("10.1.0.0/16")
    nodes = NodesConfig(count=1, runtime="oci", root=tmp_path, cluster_cidrs=["10.1.0.0/16"])
    other = HostLocks()
    with pytest.raises(ClusterError, match="--cluster-cidr: another cluster of this machine that is running uses 10"):
        with_node_cidrs(nodes, other)
    assert with_node_cidrs(nodes, claims).node_cidrs == [node_cidr(tmp_path, claims)]
    assert with_node_cidrs(replace(nodes, node_network="host"), claims).node_cidrs == ()
    docker = replace(nodes, node_network="own", runtime="docker")
    with pytest.raises(ClusterError, match=r"--node-network: .* the runtime docker uses the network of the machine"):
        with_node_cidrs(docker, claims)
