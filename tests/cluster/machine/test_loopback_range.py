from __future__ import annotations

from contextlib import closing

from sampan.cluster.machine.host_locks import HostLocks
from sampan.cluster.machine.loopback_range import loopback_addresses, loopback_services


def test_clusters_get_different_loopback_addresses() -> None:
    with closing(HostLocks()) as first, closing(HostLocks()) as second:
        here, again, other = loopback_services(first), loopback_services(first), loopback_services(second)
        assert here == again
        assert here.address_of("10.96.0.1") != other.address_of("10.96.0.1")
        assert {here.address_of("10.96.0.1"), other.address_of("10.96.0.1")} <= set(loopback_addresses("10.96.0.1"))


def test_ipv6_service_has_no_loopback_addresses() -> None:
    assert loopback_addresses("fd00::1") == []
