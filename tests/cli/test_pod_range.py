"""Where pods' addresses come from when nobody says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from sampan.cli.claims import Claims
from sampan.cli.pod_range import candidates, node_range, own_range, pod_range


@pytest.fixture
def claims() -> Iterator[Claims]:
    made = Claims()
    yield made
    made.close()


def test_a_cluster_keeps_its_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claims: Claims) -> None:
    first = pod_range(tmp_path / "one", claims)
    assert first in candidates(str(tmp_path / "one"))
    monkeypatch.setattr("sampan.network.pods.free_range", lambda candidates, bridge, take: "10.1.0.0/16")
    assert pod_range(tmp_path / "one", claims) == first  # though its own routes are there now
    assert pod_range(tmp_path / "two", claims) == "10.1.0.0/16"


@pytest.mark.skipif(sys.platform != "linux", reason="claims are of Linux")
def test_clusters_that_begin_at_the_same_moment_take_different_ranges(tmp_path: Path, claims: Claims) -> None:
    first = pod_range(tmp_path / "one", claims)
    (tmp_path / "one/pod-range").unlink()
    other = Claims()
    again = pod_range(tmp_path / "one", other)  # nothing of the first is there yet but its claim
    other.close()
    assert again in candidates(str(tmp_path / "one"))
    assert again != first


def test_clusters_begin_to_look_at_different_places() -> None:
    found = [candidates(f"/clusters/{number}") for number in range(20)]
    assert len({each[0] for each in found}) > 10
    assert len({frozenset(each) for each in found}) == 1
    assert not any(IPv4Network(each).overlaps(IPv4Network("10.96.0.0/12")) for each in found[0])  # services


def test_nodes_that_are_given_none() -> None:
    assert [node_range("10.244.0.0/16", number) for number in (0, 1, 255)] == [
        "10.244.0.0/24",
        "10.244.1.0/24",
        "10.244.255.0/24",
    ]


def test_nodes_that_take_one_themselves_take_different_ones() -> None:
    found = {own_range(f"machine-{number}") for number in range(10)}
    assert len(found) == 10
    assert all(IPv4Network(each).prefixlen == 24 for each in found)
    assert own_range("machine-0") == own_range("machine-0")
