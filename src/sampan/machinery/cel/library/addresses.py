"""IP addresses and networks: `cidr("10.0.0.0/8").containsIP("10.1.2.3")`."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from typing import Any

from sampan.api.go_compat import gotext
from sampan.api.go_compat.address_errors import address_error, prefix_error
from sampan.machinery.cel.checker.declarations import Library, function, method
from sampan.machinery.cel.checker.estimate import (
    STRING_FACTOR,
    UNIT,
    CallEstimate,
    CostEstimator,
    Operand,
    Range,
    nominal,
    traverse,
)
from sampan.machinery.cel.checker.types import BOOL, INT, STRING, opaque
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.runtime.operators import overload_error
from sampan.machinery.cel.runtime.values import Opaque

IP, CIDR = opaque("net.IP"), opaque("net.CIDR")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_MAX_ADDRESS_LENGTH = 256
"""The longest text that an error shows in full."""
_NETWORK_ERROR = "network address parse error during conversion from string"


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
    """Parse an address. Raise ValueError with the message of the real server."""
    shown = gotext.quote(text[:_MAX_ADDRESS_LENGTH])
    if why := address_error(text):
        raise ValueError(f"IP Address {shown} parse error during conversion from string: {why}")
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise ValueError(f"IP address {shown} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise ValueError(f"IPv4-mapped IPv6 address {shown} is not allowed")
    return address


def _parse_network(text: str) -> NetworkValue:
    """Parse a network. Raise ValueError with the message of the real server."""
    if why := prefix_error(text):
        raise ValueError(f"{_NETWORK_ERROR}: {why}")
    interface = ipaddress.ip_interface(text)
    if isinstance(interface.ip, ipaddress.IPv6Address) and interface.ip.ipv4_mapped is not None:
        raise ValueError(f"IPv4-mapped IPv6 address {gotext.quote(text)} is not allowed")
    return NetworkValue(interface.ip, interface.network)


def _ip(text: str) -> AddressValue:
    try:
        return AddressValue(_parse_address(text))
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _cidr(text: str) -> NetworkValue:
    try:
        return _parse_network(text)
    except ValueError as error:
        raise EvaluationError(f"{_NETWORK_ERROR}: {error}") from None


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


def _contains_ip_text(network: NetworkValue, text: str) -> bool:
    try:
        return _contains_ip(network, AddressValue(_parse_address(text)))
    except ValueError:
        raise overload_error() from None


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


def _estimate_containment(
    compared: Range, *, parses: bool = False
) -> Callable[[CostEstimator, Sequence[Operand]], CallEstimate]:
    def estimate(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
        return CallEstimate(compared.add(operands[1].size.scale(STRING_FACTOR)) if parses else compared)

    return estimate


_IP_COST = _BYTES.add(_BYTES).scale(STRING_FACTOR)
_CIDR_COST = _IP_COST.add(_BYTES.scale(STRING_FACTOR)).add(UNIT)


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
            method(CIDR, IP, result=BOOL, run=_contains_ip, cost=_ip_cost, estimate=_estimate_containment(_IP_COST)),
            method(
                CIDR,
                STRING,
                result=BOOL,
                run=_contains_ip_text,
                cost=_ip_cost,
                estimate=_estimate_containment(_IP_COST, parses=True),
            ),
        ],
        "containsCIDR": [
            method(
                CIDR, CIDR, result=BOOL, run=_contains_cidr, cost=_cidr_cost, estimate=_estimate_containment(_CIDR_COST)
            ),
            method(
                CIDR,
                STRING,
                result=BOOL,
                run=lambda network, text: _contains_cidr(network, _cidr(text)),
                cost=_cidr_cost,
                estimate=_estimate_containment(_CIDR_COST, parses=True),
            ),
        ],
        "masked": [method(CIDR, result=CIDR, run=_masked, estimate=nominal)],
        "prefixLength": [method(CIDR, result=INT, run=lambda network: network.network.prefixlen, estimate=nominal)],
        "string": [function(IP, result=STRING, run=str), function(CIDR, result=STRING, run=str)],
    },
    types=(IP, CIDR),
)
