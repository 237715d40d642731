"""Options of get, list and watch requests: validation and defaults, the meaning of resourceVersion and
resourceVersionMatch for a read, and continue tokens.

A continue token holds the first key and the resource version of the next page of a list."""

import base64
import binascii
import posixpath
import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import msgspec

from sampan.api.field_errors import FieldError
from sampan.api.go_compat.gotext import quote_byte
from sampan.storage.cacher.errors import InvalidContinue, InvalidVersion

EXACT, NOT_OLDER_THAN = "Exact", "NotOlderThan"
_MAX_UINT64 = 2**64 - 1


class VersionRule(Enum):
    CONSISTENT = "consistent"
    """The read must not be older than the store was when the read arrived."""
    ANY = "any"
    """The read may reflect any state of the cache."""
    NOT_OLDER = "not older"
    EXACT = "exact"


@dataclass(frozen=True, slots=True)
class ReadVersion:
    rule: VersionRule
    revision: int = 0


def parse_version(text: str) -> int:
    """Return the version as an integer, 0 for an empty string; raise `InvalidVersion`."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise _invalid_version(text, "invalid syntax")
    number = int(text) if len(text) <= 32 else _MAX_UINT64 + 1
    if number > _MAX_UINT64:
        raise _invalid_version(text, "value out of range")
    return number


def parse_get_version(resource_version: str) -> ReadVersion:
    if not resource_version:
        return ReadVersion(VersionRule.CONSISTENT)
    revision = parse_version(resource_version)
    return ReadVersion(VersionRule.NOT_OLDER, revision) if revision else ReadVersion(VersionRule.ANY)


def parse_list_version(resource_version: str, match: str, limit: int) -> ReadVersion:
    """Return the state that a list must reflect, for valid options without a continue token. A resource version with a
    limit and without a match rule means exactly that version."""
    if not resource_version:
        return ReadVersion(VersionRule.CONSISTENT)
    try:
        revision = parse_version(resource_version)
    except InvalidVersion as error:
        raise InvalidVersion(f"invalid resource version: {error}") from None
    if revision == 0:
        return ReadVersion(VersionRule.ANY)
    if match == EXACT or (not match and limit > 0):
        return ReadVersion(VersionRule.EXACT, revision)
    return ReadVersion(VersionRule.NOT_OLDER, revision)


def _invalid_version(text: str, why: str) -> InvalidVersion:
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return InvalidVersion(f"resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: {why}")


_VERSION = "meta.k8s.io/v1"
PRESENT = -1
"""The revision in a token that means: continue with the current state, because the version of the first page is
compacted."""


class ContinueToken(NamedTuple):
    start: str
    """The first key that the page may contain."""
    revision: int


class _ContinueToken(msgspec.Struct, gc=False):
    v: str = ""
    rv: int = 0
    start: str = ""


def encode_continue(last_key: str, scope: str, revision: int) -> str:
    """Return the token of the page that starts right after `last_key`, in a list of keys that start with `scope`."""
    return encode_continue_start(last_key + "\0", scope, revision)


def encode_continue_start(start: str, scope: str, revision: int) -> str:
    if not start.startswith(scope):
        raise ValueError(f"{start!r} is not in {scope!r}")
    wire = msgspec.json.encode(_ContinueToken(_VERSION, revision, start[len(scope) :]))
    return base64.urlsafe_b64encode(wire).rstrip(b"=").decode()


def decode_continue(token: str, scope: str) -> ContinueToken:
    wire = _parse_wire(_decode_base64(token))
    if wire.v != _VERSION:
        raise _invalid_token(f": server does not recognize this encoded version {wire.v}")
    if wire.rv == 0:
        raise _invalid_token(f": incorrect encoded start resourceVersion (version {_VERSION})")
    if not wire.start:
        raise _invalid_token(f": encoded start key empty (version {_VERSION})")
    key = wire.start if wire.start.startswith("/") else "/" + wire.start
    # A start key with ".." must not leave its scope.
    if _clean_path(key) != key:
        raise _invalid_token(f": {wire.start}")
    return ContinueToken(scope + key[1:], wire.rv)


def _decode_base64(token: str) -> bytes:
    illegal = re.search(r"[^A-Za-z0-9_-]", token.replace("\r", "").replace("\n", ""))
    position = illegal.start() if illegal else len(token) - 1 if len(token) % 4 == 1 else None
    if position is not None:
        raise _invalid_token(f": illegal base64 data at input byte {position}")
    try:
        return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except binascii.Error as error:
        raise _invalid_token(f": {error}") from error


def _parse_wire(wire: bytes) -> _ContinueToken:
    try:
        return msgspec.json.decode(wire, type=_ContinueToken)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid_token(f": {_json_error_text(wire, error)}") from error


def _json_error_text(wire: bytes, error: Exception) -> str:
    text = wire.lstrip(b" \t\r\n")
    if not text or (isinstance(error, msgspec.DecodeError) and "truncated" in str(error)):
        return "unexpected end of JSON input"
    if text[:1] not in b'{["-0123456789tfn':
        return f"invalid character {quote_byte(text[0])} looking for beginning of value"
    return str(error)


def _clean_path(path: str) -> str:
    cleaned = posixpath.normpath(path)
    return cleaned[1:] if cleaned.startswith("//") else cleaned


def _invalid_token(detail: str) -> InvalidContinue:
    return InvalidContinue("invalid continue token: continue key is not valid" + detail)


_MATCH = "resourceVersionMatch"


@dataclass(frozen=True, slots=True)
class ListWatchOptions:
    is_watch: bool = False
    resource_version: str = ""
    match: str = ""
    continue_token: str = ""
    send_initial_events: bool | None = None


def apply_defaults(options: ListWatchOptions) -> ListWatchOptions:
    """Return the options with defaults: a watch from no version or from 0 becomes a streaming list."""
    is_plain = options.send_initial_events is None and not options.match
    if options.is_watch and is_plain and options.resource_version in ("", "0"):
        return replace(options, send_initial_events=True, match=NOT_OLDER_THAN)
    return options


def validate_options(options: ListWatchOptions) -> list[FieldError]:
    """Return the errors of the options, the causes of a 422 for kind ListOptions in group meta.k8s.io."""
    return _validate_watch(options) if options.is_watch else _validate_list(options)


def _validate_list(options: ListWatchOptions) -> list[FieldError]:
    errors = []
    if options.match:
        if not options.resource_version:
            errors.append(_forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.continue_token:
            errors.append(_match_with_continue_error())
        if options.match not in (EXACT, NOT_OLDER_THAN):
            errors.append(_unsupported_match_error(options.match, (EXACT, NOT_OLDER_THAN, "")))
        if options.match == EXACT and options.resource_version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(_forbidden(_MATCH, text))
    if options.send_initial_events is not None:
        errors.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _validate_watch(options: ListWatchOptions) -> list[FieldError]:
    errors = []
    if options.send_initial_events is not None and options.match != NOT_OLDER_THAN:
        text = f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"
        errors.append(_forbidden(_MATCH, text))
    if options.match:
        if options.send_initial_events is None:
            text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            errors.append(_forbidden(_MATCH, text))
        if options.match != NOT_OLDER_THAN:
            errors.append(_unsupported_match_error(options.match, (NOT_OLDER_THAN,)))
        if options.continue_token:
            errors.append(_match_with_continue_error())
    return errors


def _match_with_continue_error() -> FieldError:
    return _forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided")


def _forbidden(field: str, text: str) -> FieldError:
    return FieldError.forbidden(field, text)


def _unsupported_match_error(value: str, supported: tuple[str, ...]) -> FieldError:
    return FieldError.not_supported(_MATCH, value, supported)
