"""Links in what a proxied server answers: those to itself must lead through the proxy again. Pure."""

from __future__ import annotations

import gzip
import html
import posixpath
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

_LINKS: dict[str, frozenset[str]] = {
    tag: frozenset(names.split())
    for tag, names in {
        "a": "href",
        "applet": "codebase",
        "area": "href",
        "audio": "src",
        "base": "href",
        "blockquote": "cite",
        "body": "background",
        "button": "formaction",
        "command": "icon",
        "del": "cite",
        "embed": "src",
        "form": "action",
        "frame": "longdesc src",
        "head": "profile",
        "html": "manifest",
        "iframe": "longdesc src",
        "img": "longdesc src usemap",
        "input": "src usemap formaction",
        "ins": "cite",
        "link": "href",
        "object": "classid codebase data usemap",
        "q": "cite",
        "script": "src",
        "source": "src",
        "video": "poster src",
    }.items()
}
"""Which attributes of which tags are addresses."""
_SKIPPED = r"<!--.*?-->|<(?:script|style)\b[^>]*>.*?</(?:script|style)\s*>"
_TAG = re.compile(rf"""({_SKIPPED})|<([a-zA-Z][a-zA-Z0-9]*)((?:\s+[^<>]*?)?)(/?)>""", re.DOTALL | re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(\s*=\s*)("[^"]*"|'[^']*'|[^\s"'=<>`]+)""")
_OPENING = re.compile(r"<(script|style)\b([^>]*)>", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    prefix: str
    """What stands before the path of the proxied server in paths of the proxy."""
    host: str
    """Of the proxied server, with its port."""
    asked_host: str
    """What the client takes for the host."""

    def link(self, text: str) -> str:
        try:
            url = urlsplit(text)
        except ValueError:
            return text
        if (url.netloc and url.netloc not in (self.host, self.asked_host)) or not url.path.startswith("/"):
            return text
        scheme, host = (url.scheme, url.netloc) if url.netloc == self.asked_host and url.netloc else ("", "")
        if url.path.startswith(self.prefix):
            return urlunsplit((scheme, host, url.path, url.query, url.fragment))
        path = posixpath.normpath(f"{self.prefix}/{url.path.lstrip('/')}")
        if url.path.endswith("/") and not path.endswith("/"):
            path += "/"
        return urlunsplit((scheme, host, path, url.query, url.fragment))

    def page(self, text: str) -> str:
        """The links of a page; everything else stays as it is."""
        return _TAG.sub(lambda match: _rewritten(match, self.link), text)


def _rewritten(match: re.Match[str], link: Callable[[str], str]) -> str:
    if match[1] is not None:
        return _OPENING.sub(lambda found: f"<{found[1]}{_attributes(found[1], found[2], link)}>", match[1], count=1)
    return f"<{match[2]}{_attributes(match[2], match[3], link)}{match[4]}>"


def _attributes(tag: str, text: str, link: Callable[[str], str]) -> str:
    names = _LINKS.get(tag.lower())
    if names is None:
        return text

    def one(match: re.Match[str]) -> str:
        if match[1].lower() not in names:
            return match[0]
        raw = match[3]
        value = html.unescape(raw[1:-1] if raw[0] in "\"'" else raw)
        changed = link(value)
        return match[0] if changed == value else f'{match[1]}{match[2]}"{html.escape(changed, quote=True)}"'

    return _ATTRIBUTE.sub(one, text)


def decoded(body: bytes, encoding: str, most: int) -> bytes | None:
    """What was compressed; None for what this does not know, or what would be too much."""
    if encoding == "":
        return body
    try:
        inflate = zlib.decompressobj(31 if encoding == "gzip" else -15)
        data = inflate.decompress(body, most)
    except zlib.error:
        return None
    return data if encoding in ("gzip", "deflate") and not inflate.unconsumed_tail else None


def encoded(body: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.compress(body, mtime=0)
    if encoding == "deflate":
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
        return deflate.compress(body) + deflate.flush()
    return body


__all__ = ["Rewriting", "decoded", "encoded"]
