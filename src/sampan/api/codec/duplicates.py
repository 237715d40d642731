r"""Cheap detection of duplicate keys in JSON, because msgspec silently keeps the last one.

The text is decoded and encoded again, which drops duplicate keys with their values, and nothing else that has quotes.
So the text has more quotes than its second form exactly if a key is duplicated. The only thing that could hide a
duplicate is a quote written as \u0022, which is encoded as \" and adds one: text with such an escape is always suspect.
"""

from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def suspected(body: bytes) -> bool:
    """Return False if no key is duplicated in this JSON text; True if one is, or if this cheap test cannot decide."""
    try:
        return suspected_in(body, _decode(body))
    except (msgspec.MsgspecError, RecursionError):
        return True


def suspected_in(body: bytes, value: Any) -> bool:
    """Like `suspected`, for a text that is already decoded to `value`."""
    return b"\\u0022" in body or _encode(value).count(b'"') != body.count(b'"')
