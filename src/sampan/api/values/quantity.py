"""Quantities: exact decimal amounts with a suffix, such as `500m`, `1536Mi` or `100e-3`.

Parsing, the canonical text that the API server writes, comparison and arithmetic belong here; the meaning of a quantity
for a resource (cores, bytes) does not. The Kubernetes counterpart is `k8s.io/apimachinery/pkg/api/resource`.

Two quirks of Kubernetes are kept, because clients see them:

- A text that looks canonical at a glance is kept as it is: `+1`, `007Ki` and `1.001` are returned unchanged.
- A decimal amount too large for any suffix loses it: `1000E` is written as `1`.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import total_ordering
from typing import Final

from sampan.host.bounded_cache import BoundedCache

PATTERN: Final = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
MAX_INT64: Final = 2**63 - 1
MAX_DIGITS: Final = 2000
"""The longest number that is parsed, and the widest gap between scales that a sum handles; beyond it the larger number
is the sum. So `1e2000000000` costs no more than `1`, and texts stay within the limit of Python's int conversion."""

_SCAN = re.compile(
    r"(?P<number>[+-]?+0*+(?P<whole>[0-9]*+)(?:\.(?P<fraction>[0-9]*+))?+)"
    r"(?P<suffix>[eEinumkKMGTP]*+[-+]?+[0-9]*+)"
)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_SPACES = " \u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_NANO = -9
"""Longer texts are not cached, or a client could fill the memory with them."""
_MAX_PLAIN_DIGITS = 18
_NO_DIGITS = ("", "+", "-", ".", "+.", "-.")

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {0: ""} | {exponent // 10: suffix for suffix, exponent in _BINARY.items()}


class QuantityError(ValueError):
    """The text is not a quantity; the message is that of kube-apiserver."""


class Format(StrEnum):
    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@total_ordering
class Quantity:
    """The number `mantissa * 10**scale` and the format that it is written in. Immutable.

    The mantissa never ends in a zero (zero itself has scale 0), so equal numbers have equal parts. Equality, order and
    hash depend only on the number.
    """

    __slots__ = ("_format", "_mantissa", "_scale", "_text")

    def __init__(
        self, mantissa: int = 0, *, scale: int = 0, format: Format = Format.DECIMAL_SI, text: str | None = None
    ) -> None:
        """Create a quantity. `text`, if given, is used in place of the canonical text."""
        self._mantissa, self._scale = _normal(mantissa, scale)
        self._format = format
        self._text = text

    @property
    def mantissa(self) -> int:
        return self._mantissa

    @property
    def scale(self) -> int:
        return self._scale

    @property
    def format(self) -> Format:
        return self._format

    def __str__(self) -> str:
        if self._text is None:
            self._text = _write(self)
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __hash__(self) -> int:
        return hash((self._mantissa, self._scale))

    def __bool__(self) -> bool:
        return self._mantissa != 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self._mantissa == other._mantissa and self._scale == other._scale

    def __lt__(self, other: "Quantity") -> bool:
        return _compare(self, other) < 0

    def __neg__(self) -> "Quantity":
        return Quantity(-self._mantissa, scale=self._scale, format=self._format)

    def __abs__(self) -> "Quantity":
        return -self if self._mantissa < 0 else self

    def __add__(self, other: "Quantity") -> "Quantity":
        """Return the sum, in this quantity's format, or in the other's if this one is zero."""
        return _sum(self, other)

    def __sub__(self, other: "Quantity") -> "Quantity":
        """Return the difference, in a format chosen as for a sum."""
        return _sum(self, -other)

    def __mul__(self, factor: int) -> "Quantity":
        return Quantity(self._mantissa * factor, scale=self._scale, format=self._format)

    @property
    def sign(self) -> int:
        return (self._mantissa > 0) - (self._mantissa < 0)

    def scaled_value(self, scale: int) -> int:
        """Return the number as a multiple of 10**scale, rounded away from zero and clamped to 64 bits."""
        shift = self._scale - scale
        if shift >= 0:
            whole = MAX_INT64 + 1 if shift > 19 else abs(self._mantissa) * _power(shift)
        else:
            whole = _divide_up(abs(self._mantissa), -shift)
        return self.sign * min(whole, MAX_INT64)

    def value(self) -> int:
        return self.scaled_value(0)

    def milli_value(self) -> int:
        return self.scaled_value(-3)

    def as_float(self) -> float:
        """Return the nearest float; infinite if the number is out of its range."""
        return float(f"{self._mantissa}e{self._scale}")

    def round_up(self, scale: int) -> "Quantity":
        """Return the quantity rounded away from zero to a multiple of 10**scale. A quantity that already is such a
        multiple is returned unchanged, with its text."""
        if self._scale >= scale:
            return self
        rounded = self.sign * _divide_up(abs(self._mantissa), scale - self._scale)
        return Quantity(rounded, scale=scale, format=self._format)


def parse(text: str) -> Quantity:
    """Parse a quantity, without stripping whitespace. Raise QuantityError."""
    return _quantities[text]


def _parse(text: str) -> Quantity:
    match = _SCAN.fullmatch(text)
    if not text or match is None:
        raise QuantityError(f"quantities must match the regular expression '{PATTERN}'")
    exponent, format = _suffix(match["suffix"])
    whole, fraction = match["whole"] or "0", match["fraction"] or ""
    quantity = (_parse_plain_binary if format is Format.BINARY_SI else _parse_plain_decimal)(
        text, whole, fraction, exponent, format
    )
    if quantity is not None:
        return quantity
    if len(whole) + len(fraction) > MAX_DIGITS or match["number"] in _NO_DIGITS:
        raise QuantityError("unable to parse numeric part of quantity")
    return _parse_rounded(text, whole + fraction, len(fraction), exponent, format)


_quantities = BoundedCache(_parse, max_entries=16384, max_entry_bytes=512)


def _canonicalize(text: str) -> str:
    return str(parse(text.strip(_SPACES)))


_canonical_texts = BoundedCache(_canonicalize, max_entries=16384, max_entry_bytes=512)


def are_equal(first: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two resource lists have the same names with equal quantities, however these are written."""
    return first.keys() == other.keys() and all(parse(first[name]) == parse(other[name]) for name in first)


def from_json(value: object) -> Quantity:
    """Return the quantity in a JSON value: a string, possibly surrounded by spaces, or a number."""
    return parse(_json_text(value).strip(_SPACES))


def canonical(value: str | int | float) -> str:
    """Return the text in which the API server writes a quantity that it reads from this JSON value."""
    text = value if type(value) is str else _json_text(value)
    return _canonical_texts[text]


def _json_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(f"quantities must match the regular expression '{PATTERN}'")
    if isinstance(value, int) and value.bit_length() > 4 * MAX_DIGITS:
        raise QuantityError("unable to parse numeric part of quantity")
    return repr(value)


def _suffix(suffix: str) -> tuple[int, Format]:
    """Return the exponent (of two for binary suffixes, of ten for others) and the format."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], Format.DECIMAL_SI
    if suffix in _BINARY:
        return _BINARY[suffix], Format.BINARY_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None or len(match[1]) > MAX_DIGITS or not -MAX_INT64 - 1 <= int(match[1]) <= MAX_INT64:
        raise QuantityError("unable to parse quantity's suffix")
    return _int32(int(match[1])), Format.DECIMAL_EXPONENT


def _int32(number: int) -> int:
    """Truncate an exponent to 32 bits, as Kubernetes does."""
    return (number + 2**31) % 2**32 - 2**31


def _parse_plain_decimal(text: str, whole: str, fraction: str, exponent: int, format: Format) -> Quantity | None:
    """Return a decimal of ordinary length and precision, or None for another."""
    digits, scale = whole + fraction, exponent - len(fraction)
    if len(digits) > _MAX_PLAIN_DIGITS or scale < _NANO:
        return None
    looks_canonical = scale % 3 == 0 and digits[0] != "0" and not digits.endswith("000")
    number = -int(digits) if text[0] == "-" else int(digits)
    return Quantity(number, scale=scale, format=format, text=text if looks_canonical else None)


def _parse_plain_binary(text: str, whole: str, fraction: str, exponent: int, format: Format) -> Quantity | None:
    """Return a whole number of ordinary length with a binary suffix, or None for another."""
    if fraction or len(whole) > 14 - exponent // 10 * 3:
        return None
    number = -int(whole) if text[0] == "-" else int(whole)
    return Quantity(number << exponent, format=format, text=text if number & 7 else None)


def _parse_rounded(text: str, digits: str, places: int, exponent: int, format: Format) -> Quantity:
    """Return any other number: rounded to nano precision, and clamped to 64 bits with a binary suffix."""
    amount, scale = int(digits), -places
    if format is Format.BINARY_SI:
        amount <<= exponent
    else:
        scale += exponent
    if scale < _NANO:
        amount, scale = _divide_up(amount, _NANO - scale), _NANO
    if format is Format.BINARY_SI:
        amount = min(amount, MAX_INT64 * _power(-scale))
        if 0 < amount < _power(-scale):
            format = Format.DECIMAL_SI
    return Quantity(-amount if text[0] == "-" else amount, scale=scale, format=format)


def _power(places: int) -> int:
    power: int = 10**places
    return power


def _divide_up(amount: int, places: int) -> int:
    """Return a non-negative amount divided by 10**places, rounded up."""
    if places > amount.bit_length():
        return 1 if amount else 0
    return -(-amount // _power(places))


def _normal(mantissa: int, scale: int) -> tuple[int, int]:
    if mantissa == 0:
        return 0, 0
    if mantissa.bit_length() > 128:
        text = str(mantissa)
        stripped = text.rstrip("0")
        return int(stripped), scale + len(text) - len(stripped)
    while mantissa % 10 == 0:
        mantissa //= 10
        scale += 1
    return mantissa, scale


def _compare(a: Quantity, b: Quantity) -> int:
    if a.sign != b.sign or not a:
        return a.sign - b.sign
    if abs(a.scale - b.scale) > MAX_DIGITS and (wider := _magnitude(a) - _magnitude(b)):
        return wider * a.sign
    left, right, _ = _align_scales(a, b)
    return (left > right) - (left < right)


def _magnitude(quantity: Quantity) -> int:
    return len(str(abs(quantity.mantissa))) + quantity.scale


def _align_scales(a: Quantity, b: Quantity) -> tuple[int, int, int]:
    """Return both mantissas at a common scale, and that scale."""
    gap = a.scale - b.scale
    if gap >= 0:
        return a.mantissa * _power(gap), b.mantissa, b.scale
    return a.mantissa, b.mantissa * _power(-gap), a.scale


def _sum(a: Quantity, b: Quantity) -> Quantity:
    format = a.format if a else b.format
    if not a or not b or abs(a.scale - b.scale) > MAX_DIGITS:
        larger = a if abs(a) > abs(b) else b
        return Quantity(larger.mantissa, scale=larger.scale, format=format)
    left, right, scale = _align_scales(a, b)
    return Quantity(left + right, scale=scale, format=format)


def _write(quantity: Quantity) -> str:
    if not quantity:
        return "0"
    mantissa, scale = quantity.mantissa, quantity.scale
    if quantity.format is Format.BINARY_SI and 0 <= scale <= MAX_DIGITS:
        amount = mantissa * _power(scale)
        if abs(amount) >= 1024:
            return _write_binary(amount)
    shift = scale % 3
    number, exponent = mantissa * _power(shift), scale - shift
    if quantity.format is Format.DECIMAL_EXPONENT:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIX.get(exponent, '')}"


def _write_binary(amount: int) -> str:
    power = 0
    while amount % 1024 == 0:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY_SUFFIX.get(power, '')}"
