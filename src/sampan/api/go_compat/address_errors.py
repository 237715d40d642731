"""The error messages of Go's `net/netip` for texts that are no addresses or prefixes, which expressions show."""

from __future__ import annotations

import re

from sampan.api.go_compat import gotext

_GROUP = re.compile(r"[0-9A-Fa-f]*")
_PREFIX_LENGTH = re.compile(r"0|[1-9][0-9]*")
_MAX_LENGTH = 256
"""The longest text that an error shows in full."""


class _AddressError(ValueError):
    def __init__(self, message: str, position: str = "") -> None:
        super().__init__(f"{message} (at {gotext.quote(position)})" if position else message)


def address_error(text: str) -> str:
    """Return the error of `netip.ParseAddr`, or an empty string for a valid address."""
    try:
        _check_address(text[:_MAX_LENGTH])
    except _AddressError as error:
        return f"ParseAddr({gotext.quote(text[:_MAX_LENGTH])}): {error}"
    return ""


def prefix_error(text: str) -> str:
    """Return the error of `netip.ParsePrefix`, or an empty string for a valid prefix."""
    why = _find_prefix_error(text[:_MAX_LENGTH])
    return f"netip.ParsePrefix({gotext.quote(text[:_MAX_LENGTH])}): {why}" if why else ""


def _find_prefix_error(text: str) -> str:
    address, slash, length = text.rpartition("/")
    if not slash:
        return "no '/'"
    if why := address_error(address):
        return why
    if "%" in address:
        return "IPv6 zones cannot be present in a prefix"
    if not _PREFIX_LENGTH.fullmatch(length) or len(length) > 18:
        return f"bad bits after slash: {gotext.quote(length)}"
    return "" if int(length) <= (128 if ":" in address else 32) else "prefix length out of range"


def _check_address(text: str) -> None:
    first = re.search(r"[.:%]", text)
    if first is None:
        raise _AddressError("unable to parse IP")
    if first[0] == "%":
        raise _AddressError("missing IPv6 address")
    if first[0] == ".":
        _check_ipv4(text)
        return
    address, percent, zone = text.partition("%")
    if percent and not zone:
        raise _AddressError("zone must be a non-empty string")
    _check_ipv6(address)


def _check_ipv4(text: str) -> None:
    octets, digits = 0, ""
    for position, char in enumerate(text):
        if char in "0123456789":
            if digits == "0":
                raise _AddressError("IPv4 field has octet with leading zero")
            digits += char
            if int(digits) > 255:
                raise _AddressError("IPv4 field has value >255")
        elif char != ".":
            raise _AddressError("unexpected character", text[position:])
        elif not digits or position == len(text) - 1:
            raise _AddressError("IPv4 field must have at least one digit", text[position:])
        elif octets == 3:
            raise _AddressError("IPv4 address too long")
        else:
            octets, digits = octets + 1, ""
    if octets < 3:
        raise _AddressError("IPv4 address too short")


def _check_ipv6(text: str) -> None:
    has_ellipsis = text.startswith("::")
    remainder = text[2:] if has_ellipsis else text
    size = 0
    while size < 16 and not (has_ellipsis and not remainder and size == 0):
        digits = _read_group(remainder)
        after = remainder[len(digits) :]
        if after.startswith("."):
            _check_embedded_ipv4(remainder, size, has_ellipsis=has_ellipsis)
            size, remainder = size + 4, ""
            break
        size, remainder = size + 2, after
        if not remainder:
            break
        if remainder[0] != ":":
            raise _AddressError("unexpected character, want colon", remainder)
        if remainder == ":":
            raise _AddressError("colon must be followed by more characters", remainder)
        remainder = remainder[1:]
        if remainder[0] == ":":
            if has_ellipsis:
                raise _AddressError("multiple :: in address", remainder)
            has_ellipsis, remainder = True, remainder[1:]
            if not remainder:
                break
    if remainder:
        raise _AddressError("trailing garbage after address", remainder)
    if size < 16 and not has_ellipsis:
        raise _AddressError("address string too short")
    if size >= 16 and has_ellipsis:
        raise _AddressError("the :: must expand to at least one field of zeros")


def _read_group(text: str) -> str:
    """Return the hexadecimal digits at the start of the text."""
    match = _GROUP.match(text)
    digits = match[0] if match is not None else ""
    if len(digits) > 4:
        raise _AddressError("each group must have 4 or less digits", text)
    if not digits:
        raise _AddressError("each colon-separated field must have at least one digit", text)
    return digits


def _check_embedded_ipv4(text: str, size: int, *, has_ellipsis: bool) -> None:
    if not has_ellipsis and size != 12:
        raise _AddressError("embedded IPv4 address must replace the final 2 fields of the address", text)
    if size + 4 > 16:
        raise _AddressError("too many hex fields to fit an embedded IPv4 at the end of the address", text)
    _check_ipv4(text)
