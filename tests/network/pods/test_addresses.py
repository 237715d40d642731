"""Addresses: in the range, never twice, whatever comes and goes and however often the kubelet begins anew."""

from __future__ import annotations

from ipaddress import ip_interface, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.network.pods.addresses import AddressPool, NoAddressLeft, gateway, parse_cidrs

CIDRS = [["10.1.0.0/28"], ["fd00::/124"], ["10.1.0.0/29", "fd00::/64"], ["fd00:1::/112", "10.255.255.0/24"]]


@given(st.sampled_from(CIDRS), st.lists(st.sampled_from(["take", "give back", "restart"]), max_size=60), st.randoms())
def test_no_address_is_given_twice(cidrs: list[str], steps: list[str], random: object) -> None:
    ranges = parse_cidrs(cidrs)
    pool, given_out = AddressPool(()), list[list[str]]()
    for step in steps:
        if step == "restart":
            pool = AddressPool(address for addresses in given_out for address in addresses)
        elif step == "give back" and given_out:
            back = given_out.pop(random.randrange(len(given_out)))  # type: ignore[attr-defined]
            pool.release(back)
        elif step == "take":
            room = min(network.num_addresses - 2 - (network.version == 4) for network in ranges)
            if len(given_out) >= room:
                with pytest.raises(NoAddressLeft):
                    pool.allocate(ranges)
                continue
            new = pool.allocate(ranges)
            assert not {a for addresses in given_out for a in addresses} & set(new)
            given_out.append(new)
    for addresses in given_out:
        for address, network in zip(addresses, ranges, strict=True):
            assert ip_interface(address).network == network
            assert ip_interface(address).ip != network.network_address
            assert address != gateway(network)
            assert network.version == 6 or ip_interface(address).ip != network.broadcast_address


def test_an_address_just_given_back_rests() -> None:
    pool, ranges = AddressPool(()), parse_cidrs(["10.1.0.0/24"])
    first = pool.allocate(ranges)
    pool.release(first)
    assert (first, pool.allocate(ranges)) == (["10.1.0.2/24"], ["10.1.0.3/24"])


def test_a_failed_take_keeps_nothing() -> None:
    pool = AddressPool(f"10.1.0.{last}/29" for last in range(2, 7))
    with pytest.raises(NoAddressLeft, match=r"no address is left in 10.1.0.0/29: 5 are in use"):
        pool.allocate(parse_cidrs(["fd00::/64", "10.1.0.0/29"]))
    assert pool.allocate(parse_cidrs(["fd00::/64"])) == ["fd00::2/64"]


@pytest.mark.parametrize("cidrs", [["10.0.0.0/33"], ["nonsense"], ["10.0.0.0/31"], ["10.0.0.0/24", "10.0.1.0/24"]])
def test_ranges_that_cannot_be(cidrs: list[str]) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_cidrs(cidrs)


def test_a_range_is_taken_by_its_network() -> None:
    assert parse_cidrs(["10.1.2.3/24"]) == (ip_network("10.1.2.0/24"),)
