"""Addresses of pods, which are never allocated twice, and free CIDRs for the pods of a cluster."""

from __future__ import annotations

from ipaddress import IPv4Network, ip_interface, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.host.clock import VirtualClock
from sampan.network.pods import BridgeConfig, BridgeNetwork, free_cidr
from sampan.network.pods.addresses import AddressPool, NoAddressLeft, first_free_cidr, gateway, parse_cidrs
from tests.network.pods.lab import Lab, needs_network

CANDIDATES = ["192.0.2.0/24", "10.244.0.0/16", "10.245.0.0/16"]
CIDRS = [["10.1.0.0/28"], ["fd00::/124"], ["10.1.0.0/29", "fd00::/64"], ["fd00:1::/112", "10.255.255.0/24"]]


@given(st.sampled_from(CIDRS), st.lists(st.sampled_from(["allocate", "release", "restart"]), max_size=60), st.randoms())
def test_no_address_is_allocated_twice(cidrs: list[str], steps: list[str], random: object) -> None:
    ranges = parse_cidrs(cidrs)
    pool, allocated = AddressPool(()), list[list[str]]()
    for step in steps:
        if step == "restart":
            pool = AddressPool(address for addresses in allocated for address in addresses)
        elif step == "release" and allocated:
            addresses = allocated.pop(random.randrange(len(allocated)))  # type: ignore[attr-defined]
            pool.release(addresses)
        elif step == "allocate":
            capacity = min(network.num_addresses - 2 - (network.version == 4) for network in ranges)
            if len(allocated) >= capacity:
                with pytest.raises(NoAddressLeft):
                    pool.allocate(ranges)
                continue
            new = pool.allocate(ranges)
            assert not {a for addresses in allocated for a in addresses} & set(new)
            allocated.append(new)
    for addresses in allocated:
        for address, network in zip(addresses, ranges, strict=True):
            assert ip_interface(address).network == network
            assert ip_interface(address).ip != network.network_address
            assert address != gateway(network)
            assert network.version == 6 or ip_interface(address).ip != network.broadcast_address


def test_released_address_is_not_reused_immediately() -> None:
    pool, ranges = AddressPool(()), parse_cidrs(["10.1.0.0/24"])
    first = pool.allocate(ranges)
    pool.release(first)
    assert (first, pool.allocate(ranges)) == (["10.1.0.2/24"], ["10.1.0.3/24"])


def test_a_failed_allocation_keeps_no_address() -> None:
    pool = AddressPool(f"10.1.0.{last}/29" for last in range(2, 7))
    with pytest.raises(NoAddressLeft, match=r"no address is left in 10.1.0.0/29: 5 are in use"):
        pool.allocate(parse_cidrs(["fd00::/64", "10.1.0.0/29"]))
    assert pool.allocate(parse_cidrs(["fd00::/64"])) == ["fd00::2/64"]


@pytest.mark.parametrize("cidrs", [["10.0.0.0/33"], ["nonsense"], ["10.0.0.0/31"], ["10.0.0.0/24", "10.0.1.0/24"]])
def test_invalid_cidrs_are_refused(cidrs: list[str]) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_cidrs(cidrs)


def test_host_bits_of_a_cidr_are_ignored() -> None:
    assert parse_cidrs(["10.1.2.3/24"]) == (ip_network("10.1.2.0/24"),)


def test_the_first_free_cidr_is_chosen() -> None:
    assert first_free_cidr(CANDIDATES, []) == "192.0.2.0/24"
    assert first_free_cidr(CANDIDATES, [IPv4Network("192.0.2.128/25"), IPv4Network("10.0.0.0/9")]) == "10.244.0.0/16"
    assert first_free_cidr(CANDIDATES, [IPv4Network("192.0.0.0/8"), IPv4Network("10.0.0.0/8")]) == "192.0.2.0/24"


@needs_network
def test_two_clusters_on_one_machine_choose_different_cidrs(lab: Lab) -> None:
    pod = lab.add_namespace("one")

    async def main() -> None:
        assert free_cidr(CANDIDATES, "tst0") == "10.244.0.0/16"  # the node has an address in the first
        config = BridgeConfig(bridge="tst0")
        async with BridgeNetwork(directory=lab.node.parent / "records", config=config, clock=VirtualClock()) as net:
            net.use_pod_cidrs(["10.244.7.0/24"])
            await net.attach("one", pod, [])
            assert free_cidr(CANDIDATES, "tst0") == "10.244.0.0/16"
            assert free_cidr(CANDIDATES, "tst1") == "10.245.0.0/16"
            await net.remove_all()

    lab.run(main)
