"""Where pods' addresses come from when nobody says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from sampan.cluster.cluster_cidrs import candidates, cluster_cidr, own_pod_cidr, pod_cidr_of
from sampan.cluster.host_locks import HostLocks


@pytest.fixture
def claims() -> Iterator[HostLocks]:
    made = HostLocks()
    yield made
    made.close()


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
    found = [candidates(f"/clusters/{number}") for number in range(20)]
    assert len({each[0] for each in found}) > 10
    assert len({frozenset(each) for each in found}) == 1
    assert not any(IPv4Network(each).overlaps(IPv4Network("10.96.0.0/12")) for each in found[0])  # services


def test_nodes_that_are_given_none() -> None:
    assert [pod_cidr_of("10.244.0.0/16", number) for number in (0, 1, 255)] == [
        "10.244.0.0/24",
        "10.244.1.0/24",
        "10.244.255.0/24",
    ]


def test_nodes_that_take_one_themselves_take_different_ones() -> None:
    found = {own_pod_cidr(f"machine-{number}") for number in range(10)}
    assert len(found) == 10
    assert all(IPv4Network(each).prefixlen == 24 for each in found)
    assert own_pod_cidr("machine-0") == own_pod_cidr("machine-0")
