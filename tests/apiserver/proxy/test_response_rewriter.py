"""Rewriting of links in proxied responses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.apiserver.proxy.response_rewriter import LinkRewriter, compress, decompress, rewrite_body_links
from tests.input_cost import cpu_s, is_quick

_PREFIX = "/api/v1/namespaces/x/services/s/proxy"
REWRITER = LinkRewriter(prefix=_PREFIX, host="10.0.0.1:80", asked_host="localhost:8001")


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("/a/b?c=d#e", f"{_PREFIX}/a/b?c=d#e"),
        ("/a/", f"{_PREFIX}/a/"),
        ("/", f"{_PREFIX}/"),
        ("a/b", "a/b"),
        ("?q=1", "?q=1"),
        ("http://10.0.0.1:80/a", f"{_PREFIX}/a"),
        ("http://localhost:8001/a", f"http://localhost:8001{_PREFIX}/a"),
        ("http://example.com/a", "http://example.com/a"),
        (f"{_PREFIX}/a", f"{_PREFIX}/a"),
        ("mailto:a@b", "mailto:a@b"),
        ("http://[bad/a", "http://[bad/a"),
    ],
)
def test_links_are_rewritten_to_the_proxy(link: str, expected: str) -> None:
    assert REWRITER.link(link) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<a href="/x">x</a>', f'<a href="{_PREFIX}/x">x</a>'),
        ("<A class=b HREF='/x?a=1&amp;b=2'>", f'<A class=b HREF="{_PREFIX}/x?a=1&amp;b=2">'),
        ("<img src=/x alt=/y>", f'<img src="{_PREFIX}/x" alt=/y>'),
        ('<img src="/x" />', f'<img src="{_PREFIX}/x" />'),
        ('<p title="/x">/x</p>', '<p title="/x">/x</p>'),
        ('<!-- <a href="/x"> -->', '<!-- <a href="/x"> -->'),
        ('<script src="/x">a = "<a href=/y>"</script>', f'<script src="{_PREFIX}/x">a = "<a href=/y>"</script>'),
        ('<a href="http://other/x">', '<a href="http://other/x">'),
    ],
)
def test_links_in_pages_are_rewritten_to_the_proxy(page: str, expected: str) -> None:
    assert REWRITER.page(page) == expected


@given(st.text(alphabet="<>/ahref='\" !-xscript", max_size=80))
def test_rewriting_does_not_shorten_pages(page: str) -> None:
    assert len(REWRITER.page(page)) >= len(page) - page.count("'") * 2 - page.count('"') * 2


@given(st.binary(max_size=200), st.sampled_from(["", "gzip", "deflate"]))
def test_compression_round_trip(body: bytes, encoding: str) -> None:
    assert decompress(compress(body, encoding), encoding, 1 << 20) == body


def test_invalid_or_oversized_compressed_bodies_are_not_decoded() -> None:
    assert decompress(b"plain", "gzip", 100) is None
    assert decompress(b"plain", "br", 100) is None
    assert decompress(compress(bytes(1 << 20), "gzip"), "gzip", 1000) is None


HOSTILE = {
    "unclosed comments": "<!--",
    "unclosed scripts": "<script>",
    "closing script tags": "</script",
    "angle brackets": "<",
    "unclosed tags": "<a ",
    "unclosed attributes": '<a href="',
    "mixed quotes": "<a x='\" y=\"'",
    "links": '<a href="/x">',
    "spaces in a tag": "<a" + " " * 50,
    "character references": '<a href="' + "&#1" * 30 + '">',
    "long character references": '<a href="&#' + "1" * 5000 + '">',
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
def test_rewriting_time_of_hostile_pages_is_not_quadratic(unit: str) -> None:
    """The best of three runs counts, since a busy machine makes everything slower."""
    page, larger_page = (unit * (size // len(unit)) for size in (100_000, 400_000))
    REWRITER.page(page)
    limit_s = 12 * cpu_s(lambda: REWRITER.page(page)) + 0.05
    assert is_quick(lambda: REWRITER.page(larger_page), limit_s)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<a href="/x', '<a href="/x'),
        ('<a title=">" href="/x">', f'<a title=">" href="{_PREFIX}/x">'),
        ("<a it's href=/x>", f'<a it\'s href="{_PREFIX}/x">'),
        (
            '<textarea><a href="/x"></textarea><a href="/y">',
            f'<textarea><a href="/x"></textarea><a href="{_PREFIX}/y">',
        ),
        ('<a href="/x"><!-- <a href="/y">', f'<a href="{_PREFIX}/x"><!-- <a href="/y">'),
        ('<!DOCTYPE html><a href="/x">', f'<!DOCTYPE html><a href="{_PREFIX}/x">'),
        ('a < b <a href="/x">', f'a < b <a href="{_PREFIX}/x">'),
        ('</a href="/x">', '</a href="/x">'),
        ('<SCRIPT src="/x"><a href="/y"></Script >', f'<SCRIPT src="{_PREFIX}/x"><a href="/y"></Script >'),
    ],
)
def test_unusual_markup_is_parsed_as_browsers_do(page: str, expected: str) -> None:
    assert REWRITER.page(page) == expected


def test_gzip_bombs_and_multi_member_bodies_are_not_rewritten() -> None:
    bomb = compress(bytes(50 << 20), "gzip")
    assert rewrite_body_links(REWRITER, bomb, "gzip", 4 << 20) is None
    member = compress(b'<a href="/x">', "gzip")
    assert rewrite_body_links(REWRITER, member + member, "gzip", 4 << 20) is None
    assert rewrite_body_links(REWRITER, member[:-4], "gzip", 4 << 20) is None
