import ipaddress
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api import addresses
from sampan.api.addresses import is_address, join_host_port, url_host
from sampan.api.field_errors import FieldError

VECTORS = json.loads((Path(__file__).parent / "data" / "address_vectors.json").read_text())

CHECKS = {
    "ip": addresses.ip,
    "legacy_ip": lambda value, field: addresses.legacy_ip(value, field, strict=False),
    "legacy_ip_strict": addresses.legacy_ip,
    "cidr": addresses.cidr,
    "legacy_cidr": lambda value, field: addresses.legacy_cidr(value, field, strict=False),
    "legacy_cidr_strict": addresses.legacy_cidr,
    "interface_address": addresses.interface_address,
}


@pytest.mark.parametrize(("check", "value", "messages"), VECTORS)
def test_errors_are_those_of_the_real_server(check: str, value: str, messages: list[str]) -> None:
    errors: list[FieldError] = CHECKS[check](value, "p")
    assert [str(error) for error in errors] == messages


@given(st.ip_addresses())
def test_canonical_addresses_are_valid(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        assert addresses.ip(str(address), "p")
    else:
        assert addresses.ip(str(address), "p") == []
        assert addresses.legacy_ip(address.exploded, "p") == []
        assert addresses.parse(address.exploded) == address


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_cidr_is_valid_only_with_its_network_address(address: ipaddress.IPv4Address, bits: int) -> None:
    network = ipaddress.ip_network((int(address), bits), strict=False)
    assert addresses.cidr(str(network), "p") == []
    assert addresses.interface_address(f"{address}/{bits}", "p") == []
    assert bool(addresses.cidr(f"{address}/{bits}", "p")) == (address != network.network_address)


def test_parse_accepts_leading_zeros_and_rejects_zones() -> None:
    assert str(addresses.parse("010.002.000.1")) == "10.2.0.1"
    assert str(addresses.parse("0" * 10_000 + "1.2.3.4")) == "1.2.3.4"
    assert addresses.parse("1.2.3." + "4" * 100) is None
    assert addresses.parse("fe80::1%eth0") is None


@pytest.mark.parametrize(
    ("host", "text"), [("10.0.0.1", "10.0.0.1:80"), ("::1", "[::1]:80"), ("a.example", "a.example:80")]
)
def test_join_host_port(host: str, text: str) -> None:
    assert join_host_port(host, 80) == join_host_port(host, "80") == text
    assert text == f"{url_host(host)}:80"


def test_is_address() -> None:
    assert is_address("10.0.0.1")
    assert is_address("fe80::1%eth0")
    assert not is_address("010.0.0.1")
    assert not is_address("a.example")
