"""DNS, addresses and credentials of a node that joined a cluster."""

from pathlib import Path

import pytest

from sampan.cli.joined_node import JoinedNodeFiles, cluster_dns, node_addresses
from sampan.cli.local_cluster.cluster_dir import ClusterDir
from sampan.cluster.join.discovery import JoinError
from sampan.cluster.join.record import JoinRecord

RECORD = JoinRecord(server="https://127.0.0.1:6443", node="machine-b")


def test_cluster_dns_is_the_tenth_address_of_the_service_cidr() -> None:
    assert cluster_dns(["10.96.0.0/16", "fd00::/112"]) == ["10.96.0.10"]
    assert cluster_dns([]) == []


def test_node_address_defaults_to_the_source_address_towards_the_server() -> None:
    assert node_addresses(RECORD)[0] == "127.0.0.1"
    chosen = JoinRecord(server=RECORD.server, node="machine-b", node_ip="10.0.0.7,fd00::7")
    assert node_addresses(chosen) == ["10.0.0.7", "fd00::7"]


def test_a_node_without_a_certificate_has_to_join_again(tmp_path: Path) -> None:
    with pytest.raises(JoinError, match="join again with a new token"):
        JoinedNodeFiles(ClusterDir(tmp_path)).access(RECORD)
