"""Go's `%#v` and `%g`. kube-apiserver's YAML errors show keys, and its YAML output floats, in this form."""

import math
import struct
from typing import Any, Literal


def go_syntax(value: Any, *, is_inner: bool = True) -> str:
    """Return the value in Go syntax. `is_inner` is for a value in an interface, where nil has a type."""
    if value is None:
        return "interface {}(nil)" if is_inner else "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, dict):
        pairs = ", ".join(f"{go_syntax(key)}:{go_syntax(item)}" for key, item in value.items())
        return f"map[interface {{}}]interface {{}}{{{pairs}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(go_syntax, value))}}}"
    return str(value)


def _quoted(text: str) -> str:
    shown = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    )
    return '"' + "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in shown) + '"'


def float_text(value: float, bits: Literal[32, 64] = 64) -> str:
    """Return a float as Go's shortest `%g`: with an exponent of at least two digits from 1e+06 on and below 1e-04."""
    if bits == 32:
        value = _single(value)
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    sign = "-" if math.copysign(1, value) < 0 else ""
    return sign + _decimal(*_shortest(abs(value), bits))


def _decimal(digits: str, exponent: int) -> str:
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
        if value == (float(text) if bits == 64 else _single(float(text))):
            break
    mantissa, _, exponent = text.partition("e")
    return mantissa.replace(".", "").rstrip("0") or "0", int(exponent)


def _single(value: float) -> float:
    """Return the nearest 32-bit float."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
