"""Whether a JSON text has an object with a repeated key, cheaply: msgspec keeps the last one and says nothing.

The text is parsed and written again, which drops repeated keys with their values, and nothing else that has quotes. So
the text has more quotes than its second form exactly if a key is repeated. The one thing that could hide it is a quote
written as \\u0022, which comes out as \\" and adds one: a text with such an escape is taken for suspect.
"""

from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def suspected(body: bytes) -> bool:
    """False if no key is repeated in this JSON text; True if one is, or if this cheap way cannot tell."""
    try:
        return suspected_in(body, _decode(body))
    except (msgspec.MsgspecError, RecursionError):
        return True


def suspected_in(body: bytes, value: Any) -> bool:
    """The same where the value of the text is at hand."""
    return b"\\u0022" in body or _encode(value).count(b'"') != body.count(b'"')


__all__ = ["suspected", "suspected_in"]
