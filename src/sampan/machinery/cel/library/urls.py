"""URLs: `url("https://example.com:80/path").getHost()`."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from sampan.api.go_compat import gotext
from sampan.machinery.cel.checker.declarations import Library, function, method
from sampan.machinery.cel.checker.estimate import traverse
from sampan.machinery.cel.checker.types import BOOL, STRING, list_of, map_of, opaque
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.runtime.values import Opaque

URL = opaque("kubernetes.URL")
_MAX_QUERY_FIELDS = 10_000
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_PORT = re.compile(r":[0-9]*")
_INVALID_IN_HOST = re.compile(r"[ \\^`{|}]")
_INVALID_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}")


class UrlValue(Opaque):
    __slots__ = ("parts", "text")
    type_name = "kubernetes.URL"

    def __init__(self, text: str, parts: SplitResult) -> None:
        self.text, self.parts = text, parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UrlValue) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def parse_url(text: str) -> UrlValue:
    """Parse a URL with a scheme, or an absolute path. Raise ValueError with the message of Go's `net/url`."""
    if why := _find_error(text):
        raise ValueError(f"parse {gotext.quote(text)}: {why}")
    return UrlValue(text, urlsplit(text))


def _find_error(text: str) -> str:
    if any(char < " " or char == "\x7f" for char in text):
        return "net/url: invalid control character in URL"
    if not text:
        return "empty url"
    scheme, colon, remainder = text.partition(":")
    has_authority = bool(colon) and _SCHEME.fullmatch(scheme) is not None and remainder.startswith("//")
    if not has_authority and not text.startswith("/"):
        return "missing protocol scheme" if text.startswith(":") else "invalid URI for request"
    address, _, _ = (remainder if has_authority else text).partition("?")
    authority, slash, path = address[2:].partition("/") if has_authority else ("", "", address)
    return _find_authority_error(authority) or _find_escape_error(slash + path)


def _find_authority_error(authority: str) -> str:
    host = authority.rpartition("@")[2]
    if host.startswith("["):
        bracket = host.rfind("]")
        if bracket < 0:
            return "missing ']' in host"
        port = host[bracket + 1 :]
    else:
        port = host[host.index(":") :] if ":" in host else ""
        if "%" in host and (error := _find_escape_error(host)):
            return error
        if invalid := _INVALID_IN_HOST.search(host):
            return f"invalid character {gotext.quote(invalid[0])} in host name"
    if port and not _PORT.fullmatch(port):
        return f"invalid port {gotext.quote(port)} after host"
    try:
        _ = urlsplit(f"//{authority}").port
    except ValueError:
        return f"invalid port {gotext.quote(port)} after host"
    return ""


def _find_escape_error(text: str) -> str:
    invalid = _INVALID_ESCAPE.search(text)
    return f"invalid URL escape {gotext.quote(invalid[0])}" if invalid else ""


def _is_url(text: str) -> bool:
    try:
        parse_url(text)
    except ValueError:
        return False
    return True


def _url(text: str) -> UrlValue:
    try:
        return parse_url(text)
    except ValueError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def _query(url: UrlValue) -> dict[str, list[str]]:
    try:
        return parse_qs(url.parts.query, keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS)
    except ValueError:
        raise EvaluationError("URL query has too many fields") from None


def _port(url: UrlValue) -> str:
    return "" if url.parts.port is None else str(url.parts.port)


def _traversal(text: Any) -> int:
    return (len(text) + 9) // 10


def _query_cost(url: UrlValue) -> int:
    return 1 + len(url.parts.query) // 10


LIBRARY = Library(
    {
        "url": [function(STRING, result=URL, run=_url, cost=_traversal, estimate=traverse(keeps_size=True))],
        "isURL": [function(STRING, result=BOOL, run=_is_url)],
        "getScheme": [method(URL, result=STRING, run=lambda url: url.parts.scheme)],
        "getHost": [method(URL, result=STRING, run=lambda url: url.parts.netloc.rpartition("@")[2])],
        "getHostname": [method(URL, result=STRING, run=lambda url: url.parts.hostname or "")],
        "getPort": [method(URL, result=STRING, run=_port)],
        "getEscapedPath": [method(URL, result=STRING, run=lambda url: url.parts.path)],
        "getQuery": [method(URL, result=map_of(STRING, list_of(STRING)), run=_query, cost=_query_cost)],
    },
    types=(URL,),
)
