"""Rewriting of links in proxied responses, so that links to the proxied server lead through the proxy. Pure."""

from __future__ import annotations

import gzip
import html
import posixpath
import re
import zlib
from collections.abc import Callable, Iterator
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
"""The attributes that contain URLs, by tag."""
_NONE: frozenset[str] = frozenset()
Link = Callable[[str], str]
Change = tuple[int, int, str]
"""The start and end of a replaced value, and the replacement."""
_RAW = frozenset({"iframe", "noembed", "noframes", "plaintext", "script", "style", "textarea", "title", "xmp"})
"""Tags whose content is text up to their end tag, whatever it looks like."""
_RAW_END = {tag: re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE) for tag in _RAW if tag != "plaintext"}
_MARKUP = re.compile("<(?=[a-zA-Z/!?])")
_TAG_NAME = re.compile(r"</?([a-zA-Z][^\s/>]*+)")
_ATTRIBUTE = re.compile(
    r"""[\s/]*+                                       # between attributes
        (?: (>)                                       # the end of the tag
          | ([^\s/>][^\s/>=]*+)                       # a name
            (?: (\s*+=\s*+)                           # and its value: quoted, of a quote without an end, or bare
                (?: ("[^"]*+"|'[^']*+') | (["']) | ([^\s>]*+) )
            )?+
        )""",
    re.VERBOSE,
)
"""All repetitions are possessive, so that no position is visited twice for one attribute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRewriter:
    prefix: str
    """The path prefix of the proxied server on the proxy."""
    host: str
    """The host and port of the proxied server."""
    asked_host: str
    """The host that the client used for the proxy."""

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
        """Rewrite the links of an HTML page; everything else is left unchanged.

        The page is scanned once from start to end, by the rules of HTML's tokenizer. What is not terminated (a comment,
        a tag, a script) extends to the end of the page and is left unchanged.
        """
        return "".join(_pieces(text, self.link))


def _pieces(text: str, link: Link) -> Iterator[str]:
    """Yield the page in pieces, of which some are rewritten."""
    done, end = 0, 0
    while (markup := _MARKUP.search(text, end)) is not None:
        position = markup.start()
        raw = ""
        if text.startswith("<!--", position):
            end = _find_end(text, "-->", position + 4)
        elif text.startswith(("<!", "<?"), position):
            end = _find_end(text, ">", position + 2)
        elif (tag := _TAG_NAME.match(text, position)) is not None:
            is_start = text[position + 1] != "/"
            name = tag[1].lower()
            changes, end = _read_tag(text, tag.end(), _LINKS.get(name, _NONE) if is_start else _NONE, link)
            if end >= 0:
                for start, stop, value in changes:
                    yield text[done:start]
                    yield value
                    done = stop
            raw = name if is_start and name in _RAW else ""
        else:
            end = position + 1
        if raw and end >= 0:
            end_tag = _RAW_END[raw].search(text, end) if raw in _RAW_END else None
            end = end_tag.start() if end_tag is not None else -1
        if end < 0:
            break
    yield text[done:]


def _find_end(text: str, terminator: str, start: int) -> int:
    position = text.find(terminator, start)
    return position + len(terminator) if position >= 0 else -1


def _read_tag(text: str, index: int, names: frozenset[str], link: Link) -> tuple[list[Change], int]:
    """Read the attributes of a tag. Return the changes of values and the end of the tag, -1 if it is not terminated."""
    changes: list[Change] = []
    while (match := _ATTRIBUTE.match(text, index)) is not None:
        end, name, _, quoted, open_quote, bare = match.groups()
        index = match.end()
        if end is not None:
            return changes, index
        if open_quote is not None:
            break
        if name.lower() not in names or not (value := quoted or bare):
            continue
        try:
            old = html.unescape(quoted[1:-1] if quoted else value)
        except ValueError:  # a character reference with thousands of digits
            continue
        new = link(old)
        if new != old:
            changes.append((index - len(value), index, f'"{html.escape(new, quote=True)}"'))
    return changes, -1


def decompress(body: bytes, encoding: str, limit: int) -> bytes | None:
    """Return the uncompressed body; None for an unknown encoding, damaged data, or more than `limit` bytes."""
    if encoding == "":
        return body
    if encoding not in ("gzip", "deflate"):
        return None
    try:
        inflate = zlib.decompressobj(31 if encoding == "gzip" else -15)
        data = inflate.decompress(body, limit)
    except zlib.error:
        return None
    return data if inflate.eof and not inflate.unused_data else None


def compress(body: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.compress(body, 6, mtime=0)
    if encoding == "deflate":
        deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        return deflate.compress(body) + deflate.flush()
    return body


def rewrite_body_links(rewriter: LinkRewriter, body: bytes, encoding: str, limit: int) -> bytes | None:
    """Return a page with its links rewritten, compressed as before; None if it must be forwarded unchanged."""
    page = decompress(body, encoding, limit)
    if page is None:
        return None
    text = rewriter.page(page.decode("utf-8", "surrogateescape"))
    return compress(text.encode("utf-8", "surrogateescape"), encoding)
