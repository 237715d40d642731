"""Service CIDRs and node port ranges, and the order in which they are searched."""

import ipaddress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.apiserver.registry.allocation import ServiceRanges, node_ports


@pytest.mark.parametrize(
    ("text", "families"),
    [
        ("10.96.0.0/16", ("IPv4",)),
        ("fd00::/108", ("IPv6",)),
        ("10.96.0.0/16,fd00::/108", ("IPv4", "IPv6")),
        ("fd00::/108, 10.96.0.0/16", ("IPv6", "IPv4")),
    ],
)
def test_first_service_cidr_sets_the_preferred_ip_family(text: str, families: tuple[str, ...]) -> None:
    assert ServiceRanges.parse(text).families == families


@pytest.mark.parametrize(
    "text",
    ["", "nope", "10.96.0.1/16", "10.0.0.0/16,10.1.0.0/16", "10.0.0.0/31", "fd00::/48", "10.0.0.0/16,fd00::/108,"],
)
def test_invalid_service_cidrs_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"range|appear|host bits"):
        ServiceRanges.parse(text)


@pytest.mark.parametrize("ports", [(0, 10), (20, 10), (30000, 70000)])
def test_invalid_node_port_ranges_are_rejected(ports: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="is no range of ports"):
        ServiceRanges.parse("10.96.0.0/16", ports)


@pytest.mark.parametrize("text", ["10.0.0.0/30", "10.0.0.0/28", "10.0.0.0/27", "10.0.0.0/24", "fd00::/122"])
@given(seed=st.integers())
def test_a_search_finds_every_address_once(text: str, seed: int) -> None:
    network = ipaddress.ip_network(text)
    offsets = list(node_ports.generate_candidate_addresses(network, Random(seed)))
    first, last = node_ports.usable_range(network)
    assert sorted(offsets) == list(range(first, last + 1))


def test_neither_the_network_nor_the_broadcast_address_is_usable() -> None:
    assert node_ports.usable_range(ipaddress.ip_network("10.0.0.0/30")) == (
        int(ipaddress.ip_address("10.0.0.1")),
        int(ipaddress.ip_address("10.0.0.2")),
    )
    last = node_ports.usable_range(ipaddress.ip_network("fd00::/126"))[1]
    assert last == int(ipaddress.ip_address("fd00::3"))


class LowestNumbers(Random):
    def randint(self, a: int, b: int) -> int:
        return a


@given(seed=st.integers())
def test_lower_band_of_addresses_is_searched_last(seed: int) -> None:
    network = ipaddress.ip_network("10.96.0.0/23")
    start = int(network.network_address)
    offsets = [number - start for number in node_ports.generate_candidate_addresses(network, Random(seed))]
    assert set(offsets[-32:]) == set(range(1, 33))
    assert set(offsets[:-32]) == set(range(33, 511))


@pytest.mark.parametrize(
    ("text", "size"), [("10.0.0.0/28", 0), ("10.0.0.0/27", 16), ("10.0.0.0/20", 256), ("10.0.0.0/8", 256)]
)
def test_lower_band_has_a_sixteenth_of_the_addresses_within_limits(text: str, size: int) -> None:
    network = ipaddress.ip_network(text)
    assert (
        next(node_ports.generate_candidate_addresses(network, LowestNumbers()))
        == int(network.network_address) + 1 + size
    )


@given(seed=st.integers())
def test_lower_band_of_node_ports_is_searched_last(seed: int) -> None:
    ports = list(node_ports.generate_candidate_ports(range(30000, 32768), Random(seed)))
    assert sorted(ports) == list(range(30000, 32768))
    assert set(ports[-86:]) == set(range(30000, 30086))


def test_search_of_large_ipv6_network_is_lazy() -> None:
    network = ipaddress.ip_network("fd00::/64")
    assert ipaddress.IPv6Address(next(node_ports.generate_candidate_addresses(network, Random(1)))) in network
