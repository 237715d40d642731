"""JSON as it stands in the text: every pair of an object in order, repeated keys included, and numbers as written.

The generic parse under the careful way of decoding, where msgspec's one pass is not enough.
"""

import json
from typing import Any

from sampan.api.codec import syntax
from sampan.api.codec.errors import SyntaxFault

INT64 = range(-(2**63), 2**63)


class Pairs(list[tuple[str, Any]]):
    """An object of the text: its keys and values in order."""


class Decimal(float):
    """A number that is no 64-bit integer as written; `text` is how it was written."""

    text: str


def parse(body: bytes) -> Any:
    """The value of a text with `Pairs` for objects. SyntaxFault for what is not JSON."""
    try:
        return _DECODER.decode(body.decode("utf-8", "replace"))
    except RecursionError:
        raise SyntaxFault(syntax.fault(body) or syntax.TOO_DEEP) from None
    except ValueError as error:
        raise SyntaxFault(syntax.fault(body) or str(error)) from None


def children(value: Any) -> list[Any]:
    """The lists and objects directly in a parsed or plain value."""
    if isinstance(value, Pairs):
        return [item for _, item in value if isinstance(item, list | dict)]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [item for item in inner if isinstance(item, list | dict)]


def plain(value: Any) -> Any:
    """The value with dicts for objects; the last of repeated keys counts."""
    if isinstance(value, Pairs):
        return {text(key): plain(item) for key, item in value}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return text(value)
    return number(value) if isinstance(value, float) else value


def number(value: float) -> int | float:
    """A decimal as it comes back from a store: a whole one loses its point."""
    return int(value) if value.is_integer() and abs(value) < 1e21 else float(value)


def text(value: str) -> str:
    """A string without the halves of characters that a \\u escape can bring in."""
    if value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def spelled(value: Any) -> str:
    """A number as it was written."""
    return value.text if isinstance(value, Decimal) else str(value)


def _decimal(written: str) -> Decimal:
    value = Decimal(written)
    value.text = written
    return value


def _whole(written: str) -> int | Decimal:
    if len(written) > 20 or (value := int(written)) not in INT64:
        return _decimal(written)
    return value


def _no_constant(written: str) -> Any:
    raise ValueError(f"{written} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_float=_decimal, parse_int=_whole, parse_constant=_no_constant
)

__all__ = ["Decimal", "Pairs", "children", "number", "parse", "plain", "spelled", "text"]
