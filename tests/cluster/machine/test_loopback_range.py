from __future__ import annotations

from contextlib import closing

from sampan.cluster.machine.host_locks import HostLocks
from sampan.cluster.machine.loopback_range import loopback_addresses, loopback_services


def test_each_cluster_has_addresses_of_its_own() -> None:
    with closing(HostLocks()) as first, closing(HostLocks()) as second:
        here, again, other = loopback_services(first), loopback_services(first), loopback_services(second)
        assert here == again
        assert here.address_of("10.96.0.1") != other.address_of("10.96.0.1")
        assert {here.address_of("10.96.0.1"), other.address_of("10.96.0.1")} <= set(loopback_addresses("10.96.0.1"))


def test_a_service_without_an_ipv4_address() -> None:
    assert loopback_addresses("fd00::1") == []
