"""What several kinds say about addresses, beside their form, which is in `sampan.api.addresses`."""

import ipaddress
from collections.abc import Iterator

from sampan.api import addresses
from sampan.api.faults import FieldError
from sampan.api.gotext import quote

_LINK_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def endpoint_ip_faults(text: str, at: str) -> Iterator[FieldError]:
    """Addresses that no endpoint can have."""
    address = addresses.parse(text)
    if address is None:
        yield FieldError.invalid(at, text, "must be a valid IP address")
        return
    if not (address.is_unspecified or address.is_loopback or address.is_link_local or address.is_multicast):
        return
    if address.is_unspecified:
        yield FieldError.invalid(at, text, f"may not be unspecified ({text})")
    if address.is_loopback:
        yield FieldError.invalid(at, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        yield FieldError.invalid(at, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if any(address in network for network in _LINK_LOCAL_MULTICAST):
        yield FieldError.invalid(at, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


def ip_warnings(text: str, at: str) -> Iterator[str]:
    """What is said of an address that is taken for its sense but is not spelled as it should be."""
    address = addresses.parse(text)
    if address is None or text == str(address):
        return
    mapped = address.ipv4_mapped if address.version == 6 else None
    if mapped is not None or addresses.legacy_ip(text, at):
        yield f"{at}: non-standard IP address {quote(text)} is invalid: use {quote(str(mapped or address))}"
    else:
        shown = quote(str(address))
        yield f"{at}: IPv6 address {quote(text)} should be in RFC 5952 canonical format ({shown})"


def cidr_warnings(text: str, at: str) -> Iterator[str]:
    """The same for a network."""
    start, _, bits = text.partition("/")
    address = addresses.parse(start)
    if address is None or not bits.isdigit() or int(bits) > address.max_prefixlen:
        return
    network = ipaddress.ip_network(f"{address}/{int(bits)}", strict=False)
    found = False
    if network.network_address != address:
        either = f"{quote(str(network))} or {quote(f'{address}/{address.max_prefixlen}')}"
        yield f"{at}: CIDR value {quote(text)} is ambiguous in this context (should be {either}?)"
        found = True
    if addresses.legacy_ip(start, at) or bits != str(int(bits)):
        yield f"{at}: non-standard CIDR value {quote(text)} is invalid: use {quote(str(network))}"
        found = True
    if not found and text != str(network):
        yield f"{at}: IPv6 CIDR value {quote(text)} should be in RFC 5952 canonical format ({quote(str(network))})"
