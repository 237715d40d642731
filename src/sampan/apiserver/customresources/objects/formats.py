"""The string formats that schemas of custom resources may name (`k8s.io/kube-openapi/pkg/validation/strfmt`)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final

from sampan.api import addresses, names
from sampan.api.values import durations

_DATE_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?([0-9a-f])[0-9a-f]{3}-?([0-9a-f])[0-9a-f]{3}-?[0-9a-f]{12}")
_UNIT = "(?:nano|micro|milli)?sec(?:ond)?s?|min(?:ute)?s?|hours?|hrs?|days?|d|weeks?|wks?|w"
_LONG_DURATION_PATTERN: Final = re.compile(rf"(?i)(?:[0-9]+\s*(?:{_UNIT})\s*)+")
"""Durations with units that Go does not know, such as `3 days`."""
_URI: Final = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]*:|/)[^\x00-\x1f\x7f]*")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")
_EMAIL: Final = re.compile(r"(?:[^<>]*<)?[^\s@<>,;:\"()]+@[^\s@<>,;\"()]+>?")
_HOSTNAME: Final = re.compile(r"[^\W_](?:[\w-]{0,61}[^\W_])?(?:\.[^\W_](?:[\w-]{0,61}[^\W_])?)*\.?")
_MAC: Final = re.compile(
    r"(?:[0-9a-fA-F]{2}([:-]))(?:[0-9a-fA-F]{2}\1){4}(?:(?:[0-9a-fA-F]{2}\1){2}|(?:[0-9a-fA-F]{2}\1){14})?[0-9a-fA-F]{2}"
    r"|(?:[0-9a-fA-F]{4}\.){2}(?:[0-9a-fA-F]{4}\.)?[0-9a-fA-F]{4}"
)


_CHANNEL = r"(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])"


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


def _is_date_time(text: str) -> bool:
    day, separator, remainder = text.lower().partition("t")
    match = _DATE_TIME.fullmatch(remainder) if separator and _is_date(day) else None
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _is_uuid(version: str = "", variants: str = "") -> Callable[[str], bool]:
    def check(text: str) -> bool:
        match = _UUID.fullmatch(text)
        if match is None or (version and match[1] != version):
            return False
        return not variants or match[2].lower() in variants

    return check


def _is_duration(text: str) -> bool:
    try:
        durations.parse_duration(text)
    except ValueError:
        return _LONG_DURATION_PATTERN.fullmatch(text) is not None
    return True


def _is_byte(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_uri(text: str) -> bool:
    return _URI.fullmatch(text) is not None and _BAD_ESCAPE.search(text) is None


def _is_hostname(text: str) -> bool:
    return len(text) <= 255 and _HOSTNAME.fullmatch(text) is not None


def _digits(text: str) -> str:
    return re.sub(r"[\s-]+", "", text)


def _is_isbn10(text: str) -> bool:
    digits = _digits(text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    return sum((10 - index) * (10 if digit == "X" else int(digit)) for index, digit in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = _digits(text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(digit) * (3 if index % 2 else 1) for index, digit in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not 13 <= len(digits) <= 19:
        return False
    doubled = [int(digit) * (1 + index % 2) for index, digit in enumerate(reversed(digits))]
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matches(re.compile("[0-9a-fA-F]{24}")),
    "byte": _is_byte,
    "cidr": lambda text: addresses.parse_network(text) is not None or _is_host_cidr(text),
    "creditcard": _is_credit_card,
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "email": lambda text: _EMAIL.fullmatch(text.strip()) is not None,
    "hexcolor": _matches(re.compile("#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})")),
    "hostname": _is_hostname,
    "ipv4": lambda text: "." in text and addresses.parse(text) is not None,
    "ipv6": lambda text: ":" in text and addresses.parse(text) is not None,
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8slongname": lambda text: not names.dns1123_subdomain(text),
    "k8sshortname": lambda text: not names.dns1123_label(text),
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "password": lambda text: True,
    "rgbcolor": _matches(re.compile(rf"rgb\(\s*{_CHANNEL}\s*,\s*{_CHANNEL}\s*,\s*{_CHANNEL}\s*\)")),
    "ssn": _matches(re.compile("[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}")),
    "uri": _is_uri,
    "uuid": _is_uuid(),
    "uuid3": _is_uuid("3"),
    "uuid4": _is_uuid("4", "89ab"),
    "uuid5": _is_uuid("5", "89ab"),
}
"""The check of each format, by the name of the format without dashes."""


def _is_host_cidr(text: str) -> bool:
    """Whether the text is an address with a prefix length; the address may have bits beyond the prefix."""
    address, slash, bits = text.partition("/")
    parsed = addresses.parse(address) if slash and bits.isascii() and bits.isdigit() else None
    return parsed is not None and int(bits) <= parsed.max_prefixlen and bits == str(int(bits))


def format_check(name: str) -> Callable[[str], bool] | None:
    """Return the check of a format; None if the format is unknown and therefore not checked."""
    return FORMATS.get(name.replace("-", ""))
