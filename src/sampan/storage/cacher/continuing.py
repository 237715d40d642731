"""Continue tokens, which hold the first key and the resource version of the next page of a list."""

import base64
import binascii
import posixpath
import re
from typing import NamedTuple

import msgspec

from sampan.storage.cacher.errors import InvalidContinue

_VERSION = "meta.k8s.io/v1"
PRESENT = -1
"""As a token's revision: continue with the current state, because the version of the first page is compacted."""


class Token(NamedTuple):
    start: str
    """The first key that the page may contain."""
    revision: int


class _Wire(msgspec.Struct, gc=False):
    v: str = ""
    rv: int = 0
    start: str = ""


def encode(last_key: str, scope: str, revision: int) -> str:
    """Return the token of the page that starts right after `last_key`, in a list of keys that start with `scope`."""
    return encode_start(last_key + "\0", scope, revision)


def encode_start(start: str, scope: str, revision: int) -> str:
    if not start.startswith(scope):
        raise ValueError(f"{start!r} is not in {scope!r}")
    wire = msgspec.json.encode(_Wire(_VERSION, revision, start[len(scope) :]))
    return base64.urlsafe_b64encode(wire).rstrip(b"=").decode()


def decode(token: str, scope: str) -> Token:
    wire = _parsed(_unpacked(token))
    if wire.v != _VERSION:
        raise _invalid(f": server does not recognize this encoded version {wire.v}")
    if wire.rv == 0:
        raise _invalid(f": incorrect encoded start resourceVersion (version {_VERSION})")
    if not wire.start:
        raise _invalid(f": encoded start key empty (version {_VERSION})")
    key = wire.start if wire.start.startswith("/") else "/" + wire.start
    # A start key with ".." must not leave its scope.
    if _cleaned(key) != key:
        raise _invalid(f": {wire.start}")
    return Token(scope + key[1:], wire.rv)


def _unpacked(token: str) -> bytes:
    illegal = re.search(r"[^A-Za-z0-9_-]", token.replace("\r", "").replace("\n", ""))
    at = illegal.start() if illegal else len(token) - 1 if len(token) % 4 == 1 else None
    if at is not None:
        raise _invalid(f": illegal base64 data at input byte {at}")
    try:
        return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except binascii.Error as error:
        raise _invalid(f": {error}") from error


def _parsed(wire: bytes) -> _Wire:
    try:
        return msgspec.json.decode(wire, type=_Wire)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid(f": {_json_fault(wire, error)}") from error


def _json_fault(wire: bytes, fault: Exception) -> str:
    text = wire.lstrip(b" \t\r\n")
    if not text or (isinstance(fault, msgspec.DecodeError) and "truncated" in str(fault)):
        return "unexpected end of JSON input"
    if text[:1] not in b'{["-0123456789tfn':
        return f"invalid character {_quoted(text[0])} looking for beginning of value"
    return str(fault)


def _quoted(byte: int) -> str:
    char = chr(byte)
    if char in "'\\":
        return f"'\\{char}'"
    if char.isprintable():
        return f"'{char}'"
    return f"'\\x{byte:02x}'" if byte < 0x80 else f"'\\u{byte:04x}'"


def _cleaned(path: str) -> str:
    cleaned = posixpath.normpath(path)
    return cleaned[1:] if cleaned.startswith("//") else cleaned


def _invalid(detail: str) -> InvalidContinue:
    return InvalidContinue("invalid continue token: continue key is not valid" + detail)
