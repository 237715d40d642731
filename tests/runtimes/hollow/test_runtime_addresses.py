"""Addresses of hollow pods."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.runtimes.hollow import AddressRange


def test_returned_addresses_are_reused_last() -> None:
    address_range = AddressRange("10.0.0.0/29")
    assert [address_range.take() for _ in range(3)] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    address_range.give_back("10.0.0.1")
    assert [address_range.take() for _ in range(4)] == ["10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.1"]
    assert address_range.take() == ""


def test_claimed_address_cannot_be_claimed_or_taken_again() -> None:
    address_range = AddressRange("10.0.0.0/29")
    assert address_range.claim("10.0.0.1")
    assert not address_range.claim("10.0.0.1")
    assert not address_range.claim("10.0.1.1")
    assert not address_range.claim("fd00::1")
    assert address_range.take() == "10.0.0.2"


def test_ipv6_address_range() -> None:
    assert AddressRange("fd00::/64").take() == "fd00::1"


@given(st.lists(st.integers(0, 12), max_size=60))
def test_no_address_is_held_twice(moves: list[int]) -> None:
    """Each number returns the held address at that index, or takes another address."""
    address_range, held = AddressRange("10.0.0.0/28"), list[str]()
    for move in moves:
        if move < len(held):
            address_range.give_back(held.pop(move))
        elif address := address_range.take():
            held.append(address)
    assert len(set(held)) == len(held) <= 14


@pytest.mark.parametrize("text", ["no address", "fe80::1%x", "10.0.0.1/24", "", "::ffff:10.1.0.1"])
def test_invalid_addresses_cannot_be_claimed(text: str) -> None:
    addresses = AddressRange("10.1.0.0/24")
    assert not addresses.claim(text)
    addresses.give_back(text)
    assert addresses.take() == "10.1.0.1"
