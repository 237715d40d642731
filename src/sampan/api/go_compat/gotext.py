"""Go's formatting of JSON values. kube-apiserver's error messages contain values formatted by Go's `fmt`, `strconv` and
`encoding/json`; clients and tests compare those messages, so Sampan formats them identically. The YAML
errors show keys, and the YAML output floats, as Go's `%#v` and `%g` do."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Raw, Struct, to_builtins

if TYPE_CHECKING:
    from sampan.api.types.meta_v1 import LabelSelector

_NAMED = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_NAMED |= {'"': '\\"', "\\": "\\\\"}
_UNESCAPED_PATTERN = re.compile(r"[ !#-\[\]-~]*")
_JSON_NAMED = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_GO_ESCAPED = re.compile(rb"[<>&]|\xe2\x80[\xa8\xa9]")
_JSON_ESCAPED = re.compile(r'[\x00-\x1f"\\<>&\u2028\u2029]')

_TYPE_NAMES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}


@dataclass(frozen=True, slots=True)
class GoValue:
    """A value that JSON does not have, as Go formats it with `%v`, `%#v` and `%T`."""

    text: str
    syntax: str
    type: str


def quote(text: str) -> str:
    """Format like `%q`: in double quotes, with unprintable characters escaped. Bytes that are not UTF-8, as which
    `surrogateescape` decodes them, are shown as bytes."""
    if _UNESCAPED_PATTERN.fullmatch(text):
        return f'"{text}"'
    return '"' + "".join(_escape_char(char) for char in text) + '"'


def quote_byte(byte: int) -> str:
    """Format the character with the number of a byte like `%q`: in single quotes. The messages of Go's `encoding/json`
    name bytes in this way."""
    char = chr(byte)
    escaped = {"'": "\\'", '"': char}.get(char)
    return f"'{escaped or _escape_char(char)}'"


def _escape_char(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def value(json: Any) -> str:
    """Format like `%v`: maps as map[key:value] sorted by key, lists as [a b], strings without quotes."""
    if isinstance(json, str):
        return json
    if isinstance(json, dict):
        return "map[" + " ".join(f"{key}:{value(json[key])}" for key in sorted(json)) + "]"
    if isinstance(json, list):
        return "[" + " ".join(map(value, json)) + "]"
    return json.text if isinstance(json, GoValue) else _scalar(json)


def text(json: Any) -> str:
    """Format like `%s`: as `%v` for strings and collections of them; any other value is marked as a formatting
    error."""
    if isinstance(json, str):
        return json
    if isinstance(json, dict):
        return "map[" + " ".join(f"{key}:{text(json[key])}" for key in sorted(json)) + "]"
    if isinstance(json, list):
        return "[" + " ".join(map(text, json)) + "]"
    return "%!s(<nil>)" if json is None else f"%!s({type_name(json)}={_scalar(json)})"


def label_selector(selector: LabelSelector | None) -> str:
    """Format a label selector like its generated `String` method, as events and tables show it."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.matchLabels.items()))
    terms = "".join(
        f"LabelSelectorRequirement{{Key:{term.key},Operator:{term.operator},Values:[{' '.join(term.values)}],}},"
        for term in selector.matchExpressions
    )
    matches = f"MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{terms}}},"
    return f"&LabelSelector{{{matches}}}"


def with_float_numbers(json: Any) -> Any:
    """Convert all integers to floats, as Go's `encoding/json` decodes numbers into an `interface{}`."""
    if isinstance(json, dict):
        return {key: with_float_numbers(item) for key, item in json.items()}
    if isinstance(json, list):
        return [with_float_numbers(item) for item in json]
    return float(json) if isinstance(json, int) and not isinstance(json, bool) else json


def type_name(json: Any) -> str:
    """Return the type that Go decodes a JSON value into."""
    if json is None:
        return "%!s(<nil>)"
    return json.type if isinstance(json, GoValue) else _TYPE_NAMES[type(json)]


def _scalar(json: bool | int | float | None) -> str:
    if json is None:
        return "<nil>"
    if isinstance(json, bool):
        return "true" if json else "false"
    return str(json) if isinstance(json, int) else number(json, exponent_from=-4, exponent_to=6)


def number(json: float, *, exponent_from: int, exponent_to: int) -> str:
    """Return the shortest form of a float, with an exponent below and from these powers of ten on."""
    sign, digits, point = _decimal(json)
    power = point - 1
    if digits != "0" and (power < exponent_from or power >= exponent_to):
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    whole = digits[:point].ljust(point, "0")
    return sign + whole + ("." + digits[point:] if len(digits) > point else "")


def _decimal(json: float) -> tuple[str, str, int]:
    """Return the sign, the digits without leading and trailing zeros, and the position of the decimal point in them."""
    mantissa, _, exponent = repr(json).lower().partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    return (sign, digits.rstrip("0"), point) if digits else (sign, "0", 1)


def json_text(json: Any) -> str:
    """Format like `json.Marshal`: no whitespace between tokens; <, > and & escaped. The keys of dicts are sorted, like
    those of Go's maps; Structs keep the order of their fields, and encoded JSON (Raw) is kept as it is."""
    if isinstance(json, dict):
        return _json_object(sorted(json.items()))
    if isinstance(json, list | tuple):
        return "[" + ",".join(map(json_text, json)) + "]"
    if isinstance(json, Struct):
        return _json_object(list(to_builtins(json).items()))
    if isinstance(json, Raw):
        return bytes(json).decode()
    return _json_scalar(json)


def compact_json(raw: bytes) -> bytes:
    """Return JSON in the form in which Go's encoder prints a `RawMessage`: without whitespace between tokens; <, >, &,
    U+2028 and U+2029 escaped. Everything else keeps its spelling."""
    compact: bytes = msgspec.json.format(raw, indent=-1)
    return _GO_ESCAPED.sub(_go_escape, compact)


def _go_escape(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(match[0].decode())


def _json_object(items: list[tuple[str, Any]]) -> str:
    return "{" + ",".join(f"{_json_scalar(key)}:{json_text(part)}" for key, part in items) + "}"


def _json_scalar(json: Any) -> str:
    if isinstance(json, str):
        return '"' + _JSON_ESCAPED.sub(_json_escape, json) + '"'
    if isinstance(json, float):
        return _json_number(json)
    return "null" if json is None else _scalar(json)


def _json_number(json: float) -> str:
    written = number(json, exponent_from=-6, exponent_to=21)
    return re.sub(r"e-0(\d)$", r"e-\1", written)


def _json_escape(match: re.Match[str]) -> str:
    char = match[0]
    return _JSON_NAMED.get(char) or f"\\u{ord(char):04x}"


def go_syntax(value: Any, *, is_inner: bool = True) -> str:
    """Return the value in Go syntax. `is_inner` is for a value in an interface, where nil has a type."""
    if value is None:
        return "interface {}(nil)" if is_inner else "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, dict):
        pairs = ", ".join(f"{go_syntax(key)}:{go_syntax(item)}" for key, item in value.items())
        return f"map[interface {{}}]interface {{}}{{{pairs}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(go_syntax, value))}}}"
    return str(value)


def float_text(value: float, bits: Literal[32, 64] = 64) -> str:
    """Return a float as Go's shortest `%g`: with an exponent of at least two digits from 1e+06 on and below 1e-04."""
    if bits == 32:
        value = _round_to_float32(value)
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    sign = "-" if math.copysign(1, value) < 0 else ""
    return sign + _float_digits(*_shortest(abs(value), bits))


def _float_digits(digits: str, exponent: int) -> str:
    if not -4 <= exponent < 6:
        fraction = f".{digits[1:]}" if digits[1:] else ""
        return f"{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{whole}.{fraction}" if fraction else whole


def _shortest(value: float, bits: Literal[32, 64]) -> tuple[str, int]:
    """Return the fewest digits that represent the value exactly with that many bits, and the exponent of the first."""
    for precision in range(17):
        text = f"{value:.{precision}e}"
        if value == (float(text) if bits == 64 else _round_to_float32(float(text))):
            break
    mantissa, _, exponent = text.partition("e")
    return mantissa.replace(".", "").rstrip("0") or "0", int(exponent)


def _round_to_float32(value: float) -> float:
    """Return the 32-bit float that is nearest to the value."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
