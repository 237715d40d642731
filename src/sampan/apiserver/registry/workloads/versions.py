"""Annotations that hold numbers which were fields in older versions of an API."""

from typing import Any

from sampan.api import gotext
from sampan.machinery import errors

_LEAST, _MOST = -(2**63), 2**63 - 1


def number_annotation(obj: Any, key: str) -> None:
    """Normalize the number in the annotation, if present. Raise BadRequest if it is not a 64-bit integer."""
    text: str | None = obj.metadata.annotations.get(key)
    if text is None:
        return
    if not _is_number(text):
        raise _unreadable(obj, text, "invalid syntax")
    number = int(text) if len(text) < 32 else _MOST + 1
    if not _LEAST <= number <= _MOST:
        raise _unreadable(obj, text, "value out of range")
    obj.metadata.annotations[key] = str(number)


def _is_number(text: str) -> bool:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isascii() and digits.isdigit()


def _unreadable(obj: Any, text: str, why: str) -> errors.ApiError:
    version = obj.apiVersion.rpartition("/")[2]
    start = f'{obj.kind} in version "{version}" cannot be handled as a {obj.kind}'
    return errors.bad_request(f"{start}: strconv.ParseInt: parsing {gotext.quote(text)}: {why}")
