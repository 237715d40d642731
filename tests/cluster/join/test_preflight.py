"""The checks before a join."""

import socket

import pytest

from sampan.cluster.join.discovery import JoinError, ServerAddress
from sampan.cluster.join.preflight import (
    ServerLink,
    check_clock,
    check_mtu,
    check_name,
    check_overlaps,
    check_ports,
    read_link,
    used_ports,
)
from sampan.cluster.machine.machine_checks import CheckLevel

LINK = ServerLink(address="10.0.0.2", server_address="10.0.0.1", mtu=1500)


@pytest.mark.parametrize(
    ("skew_s", "level"),
    [
        (0, CheckLevel.OK),
        (4, CheckLevel.OK),
        (-30, CheckLevel.WARNING),
        (3600, CheckLevel.ERROR),
        (-900, CheckLevel.ERROR),
    ],
)
def test_clock_skew_levels(skew_s: float, level: CheckLevel) -> None:
    result = check_clock(1000.0, 1000.0 + skew_s)
    assert result.level is level
    assert ("ahead of" if skew_s > 0 else "behind") in result.detail


def test_unknown_server_time_passes_the_clock_check() -> None:
    assert check_clock(None, 0).level is CheckLevel.OK


def test_lost_large_packets_are_an_error() -> None:
    assert check_mtu(LINK, has_large_response=True).level is CheckLevel.OK
    result = check_mtu(LINK, has_large_response=False)
    assert result.level is CheckLevel.ERROR
    assert "mtu 1400" in result.remedy
    small = ServerLink(address="10.0.0.2", server_address="10.0.0.1", mtu=1200)
    assert check_mtu(small, has_large_response=True).level is CheckLevel.WARNING


def test_port_in_use_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = check_ports(used_ports([port]))
    assert result.level is CheckLevel.ERROR
    assert str(port) in result.remedy
    assert check_ports([]).level is CheckLevel.OK


def test_machine_address_inside_a_cluster_cidr_is_an_error() -> None:
    assert check_overlaps("10.0.0.2", ["10.200.0.0/16", "fd00::/64"]).level is CheckLevel.OK
    assert check_overlaps("10.200.0.2", ["10.200.0.0/16"]).level is CheckLevel.ERROR


def _node(ready: str) -> dict[str, object]:
    status = {
        "conditions": [{"type": "Ready", "status": ready}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}],
    }
    return {"status": status}


def test_name_of_a_ready_node_is_an_error() -> None:
    assert check_name("n", None).level is CheckLevel.OK
    assert check_name("n", _node("Unknown")).level is CheckLevel.OK
    result = check_name("n", _node("True"))
    assert result.level is CheckLevel.ERROR
    assert "10.0.0.7" in result.detail


def test_read_link_returns_addresses_and_mtu() -> None:
    link = read_link(ServerAddress("127.0.0.1", 6443))
    assert (link.address, link.server_address) == ("127.0.0.1", "127.0.0.1")
    assert link.mtu >= 1500


def test_unresolvable_server_name_is_an_error() -> None:
    with pytest.raises(JoinError, match="cannot be resolved"):
        read_link(ServerAddress("no-such-host.invalid", 6443))
