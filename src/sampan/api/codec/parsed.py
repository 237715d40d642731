"""JSON as written: every pair of an object in order, including duplicate keys, and numbers with their spelling.

This is the parser for `careful`, where msgspec's single pass is not enough.
"""

import json
from typing import Any

import msgspec

from sampan.api.codec import syntax
from sampan.api.codec.errors import JsonSyntaxError
from sampan.api.values import json_numbers

INT64 = range(-(2**63), 2**63)

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class JsonPairs(list[tuple[str, Any]]):
    """A JSON object: its keys and values in order."""


class JsonDecimal(float):
    """A number that is not written as a 64-bit integer; `text` is its spelling."""

    text: str


def parse(body: bytes) -> Any:
    """Return the value of a text, with `JsonPairs` for objects. Raise JsonSyntaxError for invalid JSON."""
    try:
        return _DECODER.decode(body.decode("utf-8", "replace"))
    except RecursionError:
        raise JsonSyntaxError(syntax.error_message(body) or syntax.TOO_DEEP_MESSAGE) from None
    except ValueError as error:
        raise JsonSyntaxError(syntax.error_message(body) or str(error)) from None


def children(value: Any) -> list[Any]:
    """Return the lists and objects directly inside a parsed or plain value."""
    if isinstance(value, JsonPairs):
        return [item for _, item in value if isinstance(item, list | dict)]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [item for item in inner if isinstance(item, list | dict)]


def to_plain(value: Any) -> Any:
    """Return the value with dicts for objects; the last of duplicate keys counts."""
    if isinstance(value, JsonPairs):
        return {text(key): to_plain(item) for key, item in value}
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [to_plain(item) for item in value]
    if isinstance(value, str):
        return text(value)
    return json_numbers.from_float(value) if isinstance(value, float) else value


def text(value: str) -> str:
    r"""Return the string with lone surrogates, which \u escapes can produce, replaced by U+FFFD."""
    if value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def format_as_written(value: Any) -> str:
    """Return a number as it was written."""
    return value.text if isinstance(value, JsonDecimal) else str(value)


def _parse_decimal(written: str) -> JsonDecimal:
    value = JsonDecimal(written)
    value.text = written
    return value


def _parse_integer(written: str) -> int | JsonDecimal:
    if len(written) > 20 or (value := int(written)) not in INT64:
        return _parse_decimal(written)
    return value


def _reject_constant(written: str) -> Any:
    raise ValueError(f"{written} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=JsonPairs, parse_float=_parse_decimal, parse_int=_parse_integer, parse_constant=_reject_constant
)


def may_have_duplicates(body: bytes) -> bool:
    r"""Return False if no key is duplicated in this JSON text; True if one is, or if this cheap test cannot decide.

    msgspec silently keeps the last of duplicate keys. The text is decoded and encoded again, which drops duplicate keys
    with their values, and nothing else that has quotes. So the text has more quotes than its second form exactly if a
    key is duplicated. The only thing that could hide a duplicate is a quote written as \u0022, which is encoded as \"
    and adds one: text with such an escape is always suspect.
    """
    try:
        return may_have_duplicates_in(body, _decode(body))
    except (msgspec.MsgspecError, RecursionError):
        return True


def may_have_duplicates_in(body: bytes, value: Any) -> bool:
    """Like `may_have_duplicates`, for a text that is already decoded to `value`."""
    return b"\\u0022" in body or _encode(value).count(b'"') != body.count(b'"')
