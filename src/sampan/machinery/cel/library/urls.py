"""URLs: `url("https://example.com:80/path").getHost()`."""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from sampan.machinery.cel.checker.declarations import Library, function, method
from sampan.machinery.cel.checker.estimate import traverse
from sampan.machinery.cel.checker.types import BOOL, STRING, list_of, map_of, opaque
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.runtime.values import Opaque

URL = opaque("kubernetes.URL")
_MAX_QUERY_FIELDS = 10_000


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
    """Parse a URL with a scheme, or an absolute path. Raise ValueError."""
    parts = urlsplit(text)
    if not (parts.scheme and parts.netloc) and not text.startswith("/"):
        raise ValueError(f'parse "{text}": invalid URI for request')
    _ = parts.port  # raises ValueError for a port that is not a number
    return UrlValue(text, parts)


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
        "url": [function(STRING, result=URL, run=_url, cost=_traversal, estimate=traverse())],
        "isURL": [function(STRING, result=BOOL, run=_is_url, cost=_traversal, estimate=traverse())],
        "getScheme": [method(URL, result=STRING, run=lambda url: url.parts.scheme)],
        "getHost": [method(URL, result=STRING, run=lambda url: url.parts.netloc.rpartition("@")[2])],
        "getHostname": [method(URL, result=STRING, run=lambda url: url.parts.hostname or "")],
        "getPort": [method(URL, result=STRING, run=_port)],
        "getEscapedPath": [method(URL, result=STRING, run=lambda url: url.parts.path)],
        "getQuery": [method(URL, result=map_of(STRING, list_of(STRING)), run=_query, cost=_query_cost)],
    },
    types=(URL,),
)
