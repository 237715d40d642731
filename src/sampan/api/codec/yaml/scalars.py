"""Resolution of unquoted YAML scalars, by the rules of YAML 1.1 as kube-apiserver applies them.

The reader needs the value; the writer needs to know whether a string would be read as another type and must be quoted.
"""

import math
import re
from calendar import monthrange
from typing import Any, Final, Literal

Tag = Literal["str", "bool", "null", "int", "float", "timestamp"]

_MIN_INT: Final = -(2**63)
_MAX_INT: Final = 2**63 - 1
_MAX_UINT: Final = 2**64 - 1

_WORDS: Final[dict[str, tuple[Tag, Any]]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), ("bool", True)),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), ("bool", False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), ("null", None)),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), ("float", math.nan)),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), ("float", math.inf)),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), ("float", -math.inf)),
}
_INT = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_BINARY = re.compile(r"0b([+-]?[01]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_DOT_FLOAT = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_DATE = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[Tt]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]{1,9})?(?:Z|[-+]([0-9]{2}):([0-9]{2}))"
    r"| ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]{1,9})?)?"
)


def resolve(text: str) -> tuple[Tag, Any]:
    """Return the type and value of an unquoted scalar without a tag. The value of a timestamp is its text, as in
    JSON."""
    if text in _WORDS:
        return _WORDS[text]
    first = text[0]
    if first == "." and _DOT_FLOAT.fullmatch(text):
        return _finite(text, text.replace("_", ""))
    if first not in "+-0123456789":
        return "str", text
    if is_timestamp(text):
        return "timestamp", text
    return _number(text)


def _number(text: str) -> tuple[Tag, Any]:
    plain = text.replace("_", "")
    if (match := _INT.fullmatch(plain)) and (value := _integer(match)) is not None:
        return "int", value
    if _FLOAT.fullmatch(plain):
        return _finite(text, plain)
    if (match := _BINARY.fullmatch(plain)) and _MIN_INT <= (value := int(match[1], 2)) <= _MAX_INT:
        return "int", value
    return "str", text


def _integer(match: re.Match[str]) -> int | None:
    sign, hexadecimal, binary, octal, decimal = match.groups()
    for digits, base in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10)):
        if digits:
            if len(digits) > 64 and digits.lstrip("0")[64:]:
                return None
            value = int(sign + digits, base)
            return value if _MIN_INT <= value <= (_MAX_INT if sign else _MAX_UINT) else None
    return None


def _finite(text: str, digits: str) -> tuple[Tag, Any]:
    value = float(digits)
    return ("str", text) if math.isinf(value) else ("float", value)


def is_timestamp(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if not match:
        return False
    year, month, day, *clock = (int(part) if part else 0 for part in match.groups())
    if not 1 <= month <= 12 or not 1 <= day <= (monthrange(year or 4, month)[1]):
        return False
    hour, minute, second, zone_hour, zone_minute, hour2, minute2, second2 = clock
    return (
        max(hour, hour2) < 24 and max(minute, minute2, second, second2) < 60 and zone_hour <= 24 and zone_minute <= 60
    )


def needs_quotes(text: str) -> bool:
    """Whether the unquoted string would be read as another type, or by other parsers as a base 60 number."""
    return resolve(text)[0] != "str" or (text[0] in "+-0123456789" and _BASE_60.fullmatch(text) is not None)
