"""The host and path of a request, from its request line and its Host header. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_HOST_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._")
_ADDRESS_CHARACTERS = frozenset("0123456789abcdef:.")


class BadTarget(ValueError):
    """The host or the path of the request is invalid."""


class RequestTarget(NamedTuple):
    host: str
    """The host in lower case, without port."""
    authority: str
    """The host as the client has sent it, with its port if it has one."""
    path: str
    path_and_query: str


def parse_target(target: str, host_headers: Sequence[str]) -> RequestTarget:
    """Return the host and path of a request.

    A URL in the request line takes precedence over the Host header (RFC 9112, section 3.2.2). Raise BadTarget if the
    host or the path is invalid.
    """
    if len(host_headers) > 1:
        raise BadTarget("several Host headers")
    authority = host_headers[0].strip() if host_headers else ""
    scheme, separator, remainder = target.partition("://")
    if separator and scheme.lower() in ("http", "https"):
        authority, slash, path = remainder.partition("/")
        target = slash + path or "/"
    if not target.startswith("/") or "#" in target or any(ord(character) <= 0x20 for character in target):
        raise BadTarget(f"the request target {target[:80]!r} is not a path")
    if _has_dot_segment(target.partition("?")[0]):
        raise BadTarget(f"the path {target[:80]!r} has dot segments")
    return RequestTarget(host_of(authority), authority, target.partition("?")[0], target)


def _has_dot_segment(path: str) -> bool:
    """Whether a backend that decodes and normalizes the path could take it for a path other than the one compared
    with the rules of Ingresses. Browsers and HTTP libraries remove such segments before they send a request."""
    if "." not in path and "%2" not in path:
        return False
    decoded = path.replace("%2e", ".").replace("%2E", ".").replace("%2f", "/").replace("%2F", "/")
    decoded = decoded.replace("%5c", "/").replace("%5C", "/").replace("\\", "/")
    return any(segment.partition(";")[0] in (".", "..") for segment in decoded.split("/"))


def host_of(authority: str) -> str:
    """Return the host of an authority, in lower case and without port.

    The host is empty if the request has none. Raise BadTarget if the authority is invalid.
    """
    text = authority.lower()
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        is_valid = bool(bracket) and _ADDRESS_CHARACTERS.issuperset(host)
    else:
        host, colon, port = text.partition(":")
        port = colon + port
        is_valid = _HOST_CHARACTERS.issuperset(host)
    if not is_valid or (port and not (port[0] == ":" and (port[1:].isdecimal() or not port[1:]))):
        raise BadTarget(f"the host {authority[:80]!r} is malformed")
    return host.removesuffix(".")
