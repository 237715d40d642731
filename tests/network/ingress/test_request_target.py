"""The host and path of a request."""

from __future__ import annotations

import pytest

from sampan.network.ingress.request_target import BadTarget, parse_target


@pytest.mark.parametrize(
    ("target", "hosts", "host", "path", "forwarded"),
    [
        ("/a?b=/c", ["Web.Example:8080"], "web.example", "/a", "/a?b=/c"),
        ("/", ["web.example."], "web.example", "/", "/"),
        ("/", [], "", "/", "/"),
        ("/", ["[FD00::1]:80"], "fd00::1", "/", "/"),
        ("/...//.a/b..c/%2e%2e%2e%2fd", ["h"], "h", "/...//.a/b..c/%2e%2e%2e%2fd", "/...//.a/b..c/%2e%2e%2e%2fd"),
        ("/a?next=/../b", ["h"], "h", "/a", "/a?next=/../b"),
        ("http://other:80/x?y", ["h"], "other", "/x", "/x?y"),
        ("HTTPS://other", ["h"], "other", "/", "/"),
        ("/http://other/", ["h"], "h", "/http://other/", "/http://other/"),
    ],
)
def test_host_and_path_are_parsed(target: str, hosts: list[str], host: str, path: str, forwarded: str) -> None:
    parsed = parse_target(target, hosts)
    assert (parsed.host, parsed.path, parsed.path_and_query) == (host, path, forwarded)


@pytest.mark.parametrize(
    ("target", "hosts"),
    [
        ("*", ["h"]),
        ("h:443", ["h"]),
        ("ftp://h/", ["h"]),
        ("/a#b", ["h"]),
        ("/a b", ["h"]),
        ("/public/../admin", ["h"]),
        ("/public/./admin", ["h"]),
        ("/public/..", ["h"]),
        ("/public/%2e%2E/admin", ["h"]),
        ("/public/.%2e?x", ["h"]),
        ("/public%2f..%2Fadmin", ["h"]),
        ("/public/..;x=y/admin", ["h"]),
        ("/public/..\\admin", ["h"]),
        ("/public/..%5cadmin", ["h"]),
        ("http://other/public/../admin", ["h"]),
        ("/", ["a", "a"]),
        ("/", ["a, b"]),
        ("/", ["user@h"]),
        ("/", ["h/x"]),
        ("/", ["h:80:90"]),
        ("/", ["h:x"]),
        ("/", ["[fd00::1"]),
        ("/", ["[fd00::1]x"]),
        ("/", ["münchen"]),
        ("http://user@h/", ["h"]),
        ("http://h?x", ["h"]),
    ],
)
def test_malformed_targets_are_rejected(target: str, hosts: list[str]) -> None:
    with pytest.raises(BadTarget):
        parse_target(target, hosts)
