"""IP addresses and CIDRs: validation, parsing and the form with a port. The functions that validate a field return its
errors, with kube-apiserver's messages.

Fields that are older than the strict rules (`legacy_*`) accept any notation of an IPv6 address; with `strict=False`
they also accept leading zeros, IPv4-mapped IPv6 addresses and bits beyond the prefix. All others require the canonical
form.
"""

import ipaddress
import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.host.bounded_cache import BoundedCache

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_strip_zeros = re.compile(r"(?<![0-9A-Fa-f])0+(?=[0-9A-Fa-f])").sub
_CLIENT_PREFIX_LENGTH = 64
"""A host with one IPv6 address usually has its whole /64 network."""
_MAX_ADDRESS_LENGTH = 64
"""Longer than any address without leading zeros; `parse` rejects anything longer."""


def ip(value: str, field: str) -> list[FieldError]:
    address, errors = _ip(value, field, strict=True)
    if address is not None and not errors and value != str(address):
        errors.append(_canonical_form_error(value, field, str(address)))
    return errors


def legacy_ip(value: str, field: str, *, strict: bool = True) -> list[FieldError]:
    return _ip(value, field, strict=strict)[1]


def cidr(value: str, field: str) -> list[FieldError]:
    """Validate a subnet."""
    network, errors = _cidr(value, field, strict=True)
    if network and not errors:
        address, bits = network
        canonical = f"{_mask_host_bits(address, bits)}/{bits}"
        errors = [] if value == canonical else [_canonical_form_error(value, field, canonical)]
    return errors


def legacy_cidr(value: str, field: str, *, strict: bool = True) -> list[FieldError]:
    return _cidr(value, field, strict=strict)[1]


def interface_address(value: str, field: str) -> list[FieldError]:
    """Validate an address with the prefix length of its subnet."""
    network = _parse_cidr(value)
    if network is None:
        detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        return [FieldError.invalid(field, value, detail)]
    address, bits = network
    plain = unmap_address(address)
    if isinstance(plain, IPv4Address) and bits > 32:
        bits -= 96
    canonical = f"{plain}/{bits}"
    return [] if value == canonical else [_canonical_form_error(value, field, canonical)]


def _parse(value: str) -> Address | None:
    try:
        return ipaddress.ip_address(_strip_zeros("", value))
    except ValueError:
        return None


_addresses = BoundedCache(_parse, max_entries=4096, max_entry_bytes=512)


def parse(value: str) -> Address | None:
    """Return the address in any notation, ignoring leading zeros, or None if the value is not an address."""
    if len(value) > _MAX_ADDRESS_LENGTH:
        value = _strip_zeros("", value)
    return _addresses[value] if len(value) <= _MAX_ADDRESS_LENGTH and "%" not in value else None


def parse_network(value: str) -> Network | None:
    """Return the network in any notation, ignoring bits beyond the prefix, or None if the value is not a network."""
    network = _parse_cidr(value)
    if network is None:
        return None
    address, bits = network
    return ipaddress.ip_network(f"{_mask_host_bits(address, bits)}/{bits}")


def is_address(text: str) -> bool:
    """Whether the text is an IP address; an IPv6 address may have a zone."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def join_host_port(host: str, port: int | str) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"{url_host(host)}:{port}"


def url_host(host: str) -> str:
    """Return the host in the form for a URL: an IPv6 address is put in brackets."""
    return f"[{host}]" if ":" in host else host


def _is_plain(value: str) -> bool:
    """Whether an address has no superfluous leading zeros."""
    return len(value) <= _MAX_ADDRESS_LENGTH and _are_plain[value]


_are_plain = BoundedCache(is_address, max_entries=4096, max_entry_bytes=512)


def unmap_address(address: Address) -> Address:
    """Return the IPv4 address that an IPv4-mapped IPv6 address stands for; any other address is returned unchanged. A
    connection to either form reaches the same host, so rules about addresses must look at the result."""
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _is_mapped(address: Address) -> bool:
    return isinstance(address, IPv6Address) and address.ipv4_mapped is not None


def _canonical_form_error(value: str, field: str, canonical: str) -> FieldError:
    return FieldError.invalid(field, value, f"must be in canonical form ({gotext.quote(canonical)})")


def _ip(value: str, field: str, *, strict: bool) -> tuple[Address | None, list[FieldError]]:
    address = parse(value)
    if address is None:
        return None, [FieldError.invalid(field, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    if not strict:
        return address, []
    if not _is_plain(value):
        return address, [FieldError.invalid(field, value, "must not have leading 0s")]
    if _is_mapped(address):
        return address, [FieldError.invalid(field, value, "must not be an IPv4-mapped IPv6 address")]
    return address, []


def _parse_cidr(value: str) -> tuple[Address, int] | None:
    text, slash, bits = value.partition("/")
    address = parse(text)
    if address is None or not slash or not bits.isascii() or not bits.isdigit():
        return None
    bits = bits.lstrip("0") or "0"
    return (address, int(bits)) if len(bits) <= 3 and int(bits) <= address.max_prefixlen else None


def _cidr(value: str, field: str, *, strict: bool) -> tuple[tuple[Address, int] | None, list[FieldError]]:
    network = _parse_cidr(value)
    if network is None:
        return None, [
            FieldError.invalid(field, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")
        ]
    detail = _strict_cidr_detail(value, *network) if strict else ""
    return network, [FieldError.invalid(field, value, detail)] if detail else []


def _strict_cidr_detail(value: str, address: Address, bits: int) -> str:
    text, _, length = value.partition("/")
    if not _is_plain(text) or (len(length) > 1 and length[0] == "0"):
        return "must not have leading 0s in IP or prefix length"
    if _is_mapped(address):
        return "must not have an IPv4-mapped IPv6 address"
    return "" if address == _mask_host_bits(address, bits) else "must not have bits set beyond the prefix length"


def _mask_host_bits(address: Address, bits: int) -> Address:
    host_bits = address.max_prefixlen - bits
    return type(address)(int(address) >> host_bits << host_bits)


def client_network(address: str) -> str:
    """Return the address range that limits count as one client: an IPv4 address, or the /64 network of an IPv6
    address."""
    if ":" not in address:
        return address
    try:
        ipv6 = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if ipv6.ipv4_mapped is not None:
        return str(ipv6.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(ipv6), _CLIENT_PREFIX_LENGTH), strict=False))
