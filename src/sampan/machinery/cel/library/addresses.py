"""IP addresses and networks: `cidr("10.0.0.0/8").containsIP("10.1.2.3")`."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from sampan.machinery.cel.checker.declarations import Library, function, method
from sampan.machinery.cel.checker.estimate import (
    STRING_FACTOR,
    CallEstimate,
    CostEstimator,
    Operand,
    Range,
    fixed_range,
    nominal,
    traverse,
)
from sampan.machinery.cel.checker.types import BOOL, INT, STRING, opaque
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.runtime.values import Opaque

IP, CIDR = opaque("net.IP"), opaque("net.CIDR")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_MAX_ADDRESS_LENGTH = 64
"""No address or network has more characters."""


class AddressValue(Opaque):
    __slots__ = ("address",)
    type_name = "net.IP"

    def __init__(self, address: Address) -> None:
        self.address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AddressValue) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __str__(self) -> str:
        return str(self.address)


class NetworkValue(Opaque):
    """A network, with the address that it was written with."""

    __slots__ = ("address", "network")
    type_name = "net.CIDR"

    def __init__(self, address: Address, network: Network) -> None:
        self.address, self.network = address, network

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NetworkValue) and (self.address, self.network) == (other.address, other.network)

    def __hash__(self) -> int:
        return hash((self.address, self.network))

    def __str__(self) -> str:
        return f"{self.address}/{self.network.prefixlen}"


def _parse_address(text: str) -> Address:
    """Parse an address. Raise ValueError, also for zones and IPv4-mapped IPv6 addresses."""
    if len(text) > _MAX_ADDRESS_LENGTH or "%" in text:
        raise ValueError(text)
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError(text)
    return address


def _parse_network(text: str) -> NetworkValue:
    head, slash, prefix = text.rpartition("/")
    if (
        not slash
        or len(text) > _MAX_ADDRESS_LENGTH
        or not prefix.isascii()
        or not prefix.isdecimal()
        or (prefix[0] == "0" and prefix != "0")
    ):
        raise ValueError(text)
    return NetworkValue(_parse_address(head), ipaddress.ip_interface(text).network)


def _ip(text: str) -> AddressValue:
    try:
        return AddressValue(_parse_address(text))
    except ValueError:
        raise EvaluationError(f'IP Address "{text[:100]}" parse error during conversion from string') from None


def _cidr(text: str) -> NetworkValue:
    try:
        return _parse_network(text)
    except ValueError:
        shown = f'network address parse error during conversion from string: "{text[:100]}"'
        raise EvaluationError(shown) from None


def _is_ip(text: str) -> bool:
    try:
        _parse_address(text)
    except ValueError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    try:
        _parse_network(text)
    except ValueError:
        return False
    return True


def _contains_ip(network: NetworkValue, address: AddressValue) -> bool:
    return address.address in network.network


def _contains_cidr(network: NetworkValue, other: NetworkValue) -> bool:
    inner, outer = other.network, network.network
    if isinstance(inner, ipaddress.IPv4Network) and isinstance(outer, ipaddress.IPv4Network):
        return inner.subnet_of(outer)
    if isinstance(inner, ipaddress.IPv6Network) and isinstance(outer, ipaddress.IPv6Network):
        return inner.subnet_of(outer)
    return False


def _masked(network: NetworkValue) -> NetworkValue:
    return NetworkValue(network.network.network_address, network.network)


def _is_global_unicast(value: AddressValue) -> bool:
    address = value.address
    is_broadcast = str(address) == "255.255.255.255"
    return not (
        address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local or is_broadcast
    )


def _is_link_local_multicast(value: AddressValue) -> bool:
    address = value.address
    if isinstance(address, ipaddress.IPv4Address):
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.is_multicast and address.packed[1] & 0x0F == 2


def _traversal(text: Any) -> int:
    return (len(text) + 9) // 10


def _size(network: NetworkValue) -> int:
    return (network.network.prefixlen + 7) // 8


def _ip_cost(network: NetworkValue, other: Any) -> int:
    return (2 * _size(network) + 9) // 10 + (_traversal(other) if isinstance(other, str) else 0)


def _cidr_cost(network: NetworkValue, other: Any) -> int:
    return _ip_cost(network, other) + (_size(network) + 9) // 10 + 1


_BYTES = Range(4, 16)


def _estimate_ip(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    cost = _BYTES.add(_BYTES).scale(STRING_FACTOR)
    if operands[1].type.kind == "string":
        cost = cost.add(operands[1].size.scale(STRING_FACTOR))
    return CallEstimate(cost)


def _estimate_cidr(estimator: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    cost = _estimate_ip(estimator, operands).cost
    return CallEstimate(cost.add(_BYTES.scale(STRING_FACTOR)).add(fixed_range(1)))


def _declare_ip_method(run: Any, result: Any = BOOL) -> list[Any]:
    return [method(IP, result=result, run=run, estimate=nominal)]


LIBRARY = Library(
    {
        "ip": [
            function(STRING, result=IP, run=_ip, cost=_traversal, estimate=traverse()),
            method(CIDR, result=IP, run=lambda network: AddressValue(network.address), estimate=nominal),
        ],
        "isIP": [function(STRING, result=BOOL, run=_is_ip, cost=_traversal, estimate=traverse())],
        "ip.isCanonical": [
            function(
                STRING,
                result=BOOL,
                run=lambda text: str(_ip(text)) == text,
                cost=lambda text: (2 * len(text) + 9) // 10,
                estimate=traverse(2 * STRING_FACTOR),
            )
        ],
        "family": _declare_ip_method(lambda value: value.address.version, INT),
        "isUnspecified": _declare_ip_method(lambda value: value.address.is_unspecified),
        "isLoopback": _declare_ip_method(lambda value: value.address.is_loopback),
        "isLinkLocalUnicast": _declare_ip_method(lambda value: value.address.is_link_local),
        "isLinkLocalMulticast": _declare_ip_method(_is_link_local_multicast),
        "isGlobalUnicast": _declare_ip_method(_is_global_unicast),
        "cidr": [function(STRING, result=CIDR, run=_cidr, cost=_traversal, estimate=traverse())],
        "isCIDR": [function(STRING, result=BOOL, run=_is_cidr, cost=_traversal, estimate=traverse())],
        "containsIP": [
            method(CIDR, IP, result=BOOL, run=_contains_ip, cost=_ip_cost, estimate=_estimate_ip),
            method(
                CIDR,
                STRING,
                result=BOOL,
                run=lambda network, text: _contains_ip(network, _ip(text)),
                cost=_ip_cost,
                estimate=_estimate_ip,
            ),
        ],
        "containsCIDR": [
            method(CIDR, CIDR, result=BOOL, run=_contains_cidr, cost=_cidr_cost, estimate=_estimate_cidr),
            method(
                CIDR,
                STRING,
                result=BOOL,
                run=lambda network, text: _contains_cidr(network, _cidr(text)),
                cost=_cidr_cost,
                estimate=_estimate_cidr,
            ),
        ],
        "masked": [method(CIDR, result=CIDR, run=_masked, estimate=nominal)],
        "prefixLength": [method(CIDR, result=INT, run=lambda network: network.network.prefixlen, estimate=nominal)],
        "string": [function(IP, result=STRING, run=str), function(CIDR, result=STRING, run=str)],
    },
    types=(IP, CIDR),
)
