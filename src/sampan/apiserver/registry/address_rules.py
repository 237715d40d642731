"""Validation and warnings for IP addresses and CIDRs, shared by kinds; parsing is in `sampan.api.addresses`."""

import ipaddress
from collections.abc import Iterator
from functools import lru_cache

from sampan.api import addresses
from sampan.api.faults import FieldError
from sampan.api.gotext import quote
from sampan.api.integers import parse_int64

_LINK_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))
_LONGEST = 64
"""Longer strings cannot be valid addresses and are kept out of the caches of parsed results."""


def validate_endpoint_ip(text: str, at: str) -> Iterator[FieldError]:
    """Yield an error if the text is not an IP address that an endpoint can have."""
    for detail in _endpoint_details(text) if len(text) <= _LONGEST else ("must be a valid IP address",):
        yield FieldError.invalid(at, text, detail)


@lru_cache(maxsize=8192)
def _endpoint_details(text: str) -> tuple[str, ...]:
    address = addresses.parse(text)
    if address is None:
        return ("must be a valid IP address",)
    rules = (
        (address.is_unspecified, f"may not be unspecified ({text})"),
        (address.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (address.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (
            any(address in network for network in _LINK_LOCAL_MULTICAST),
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    )
    return tuple(detail for is_so, detail in rules if is_so)


def ip_warnings(text: str, at: str) -> Iterator[str]:
    """Yield a warning if the IP address is accepted although it is not in canonical form."""
    if warning := _ip_warning(text) if len(text) <= _LONGEST else "":
        yield f"{at}: {warning}"


@lru_cache(maxsize=8192)
def _ip_warning(text: str) -> str:
    address = addresses.parse(text)
    if address is None or text == str(address):
        return ""
    mapped = address.ipv4_mapped if address.version == 6 else None
    if mapped is not None or addresses.legacy_ip(text, ""):
        return f"non-standard IP address {quote(text)} is invalid: use {quote(str(mapped or address))}"
    return f"IPv6 address {quote(text)} should be in RFC 5952 canonical format ({quote(str(address))})"


def cidr_warnings(text: str, at: str) -> Iterator[str]:
    """Yield warnings if the CIDR is accepted although it is ambiguous or not in canonical form."""
    for warning in _cidr_warnings(text) if len(text) <= _LONGEST else ():
        yield f"{at}: {warning}"


@lru_cache(maxsize=4096)
def _cidr_warnings(text: str) -> tuple[str, ...]:
    start, _, bits = text.partition("/")
    address = addresses.parse(start)
    prefix = parse_int64(bits) if bits.isdigit() else None
    if address is None or prefix is None or prefix > address.max_prefixlen:
        return ()
    network = ipaddress.ip_network(f"{address}/{prefix}", strict=False)
    warnings = []
    if network.network_address != address:
        either = f"{quote(str(network))} or {quote(f'{address}/{address.max_prefixlen}')}"
        warnings.append(f"CIDR value {quote(text)} is ambiguous in this context (should be {either}?)")
    if addresses.legacy_ip(start, "") or bits != str(prefix):
        warnings.append(f"non-standard CIDR value {quote(text)} is invalid: use {quote(str(network))}")
    if not warnings and text != str(network):
        canonical = f"should be in RFC 5952 canonical format ({quote(str(network))})"
        warnings.append(f"IPv6 CIDR value {quote(text)} {canonical}")
    return tuple(warnings)
