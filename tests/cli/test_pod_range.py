"""Where pods' addresses come from when nobody says."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from sampan.cli.pod_range import candidates, node_range, own_range, pod_range


def test_a_cluster_keeps_its_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = pod_range(tmp_path / "one")
    assert first in candidates(str(tmp_path / "one"))
    monkeypatch.setattr("sampan.network.pods.free_range", lambda candidates, bridge: "10.1.0.0/16")
    assert pod_range(tmp_path / "one") == first  # though its own routes are there now
    assert pod_range(tmp_path / "two") == "10.1.0.0/16"


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
