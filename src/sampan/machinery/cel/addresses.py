"""Addresses, networks and URLs in expressions: `cidr("10.0.0.0/8").containsIP("10.1.2.3")`, `url(…).getHost()`.

To the expression they are mappings with one key, which says what they are.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from sampan.machinery.cel.expression import Function

Meant = dict[str, str]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_IP, _CIDR, _URL = "ip", "cidr", "url"


def _address(value: Any) -> Address:
    """Of a text or of what `ip()` gave. Zones and IPv4 in IPv6 are none."""
    text = value if isinstance(value, str) else value[_IP]
    found = ipaddress.ip_address(text)
    if "%" in text or (isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None):
        raise ValueError(f"IP Address {text!r} parse error during conversion from string")
    return found


def _network(value: Any) -> tuple[Address, Network]:
    text = value if isinstance(value, str) else value[_CIDR]
    interface = ipaddress.ip_interface(text)
    if "/" not in text or not text.rpartition("/")[2].isdecimal():
        raise ValueError(f"network address parse error during conversion from string: {text!r}")
    return _address(text.rpartition("/")[0]), interface.network


def _parts(value: Any) -> SplitResult:
    text = value if isinstance(value, str) else value[_URL]
    parts = urlsplit(text)
    if not (parts.scheme and parts.netloc) and not text.startswith("/"):
        raise ValueError(f"URL parse error during conversion from string: {text!r}")
    _ = parts.port  # raises for one that is no number
    return parts


def _is(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def found(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return found


def _made(kind: str, read: Callable[[str], Any]) -> Callable[[str], Meant]:
    def found(text: str) -> Meant:
        read(text)
        return {kind: text}

    return found


def _contains(network: Any, other: Any) -> bool:
    inner, outer = _network(other)[1], _network(network)[1]
    return inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def _masked(network: Any) -> Meant:
    return {_CIDR: str(_network(network)[1])}


def _is_global_unicast(value: Any) -> bool:
    found = _address(value)
    is_broadcast = str(found) == "255.255.255.255"
    return not (found.is_unspecified or found.is_loopback or found.is_multicast or found.is_link_local or is_broadcast)


def _is_link_local_multicast(value: Any) -> bool:
    found = _address(value)
    if isinstance(found, ipaddress.IPv4Address):
        return found in ipaddress.ip_network("224.0.0.0/24")
    return found.is_multicast and found.packed[1] & 0x0F == 2


def _of_ip(name: str, call: Callable[[Any], Any], gives: str = "bool") -> Function:
    return Function(name, call, 1, True, gives=gives)


FUNCTIONS: Sequence[Function] = (
    Function("ip", _made(_IP, _address)),
    Function("isIP", _is(_address), gives="bool"),
    Function("ip.isCanonical", lambda text: str(_address(text)) == text, gives="bool"),
    _of_ip("family", lambda value: _address(value).version, "int"),
    _of_ip("isUnspecified", lambda value: _address(value).is_unspecified),
    _of_ip("isLoopback", lambda value: _address(value).is_loopback),
    _of_ip("isLinkLocalUnicast", lambda value: _address(value).is_link_local),
    _of_ip("isLinkLocalMulticast", _is_link_local_multicast),
    _of_ip("isGlobalUnicast", _is_global_unicast),
    Function("cidr", _made(_CIDR, _network)),
    Function("isCIDR", _is(_network), gives="bool"),
    Function("containsIP", lambda network, value: _address(value) in _network(network)[1], 2, True, gives="bool"),
    Function("containsCIDR", _contains, 2, True, gives="bool"),
    Function("ip", lambda network: {_IP: str(_network(network)[0])}, 1, True),
    Function("masked", _masked, 1, True),
    Function("prefixLength", lambda network: _network(network)[1].prefixlen, 1, True, gives="int"),
    Function("url", _made(_URL, _parts)),
    Function("isURL", _is(_parts), gives="bool"),
    Function("getScheme", lambda value: _parts(value).scheme, 1, True, gives="string"),
    Function("getHost", lambda value: _parts(value).netloc.rpartition("@")[2], 1, True, gives="string"),
    Function("getHostname", lambda value: _parts(value).hostname or "", 1, True, gives="string"),
    Function("getPort", lambda value: str(_parts(value).port or ""), 1, True, gives="string"),
    Function("getEscapedPath", lambda value: _parts(value).path, 1, True, gives="string"),
    Function("getQuery", lambda value: parse_qs(_parts(value).query, keep_blank_values=True), 1, True),
)

__all__ = ["FUNCTIONS"]
