"""Cookies and origins of pages that the API server forwards."""

import pytest
from multidict import CIMultiDict

from sampan.apiserver.proxy.browser_isolation import isolate_page, remove_origin_rights, remove_session_cookies


@pytest.mark.parametrize(
    ("cookies", "forwarded"),
    [
        (["__Host-sampan-6443=secret"], []),
        (["sampan-8001=secret; a=b"], ["a=b"]),
        (["a=b; __Host-sampan-6443=secret;c=d"], ["a=b;c=d"]),
        (["a=b; __HOST-SAMPAN-6443=secret"], ["a=b"]),
        (["  __Host-sampan-6443 = secret"], []),
        (["a=b", "sampan-1=secret"], ["a=b"]),
        (["a=sampan-1=x; b"], ["a=sampan-1=x; b"]),
        ([], []),
    ],
)
def test_session_cookies_are_not_forwarded(cookies: list[str], forwarded: list[str]) -> None:
    headers = CIMultiDict([("X", "y"), *(("cookie", value) for value in cookies)])
    remove_session_cookies(headers)
    assert headers.getall("Cookie", []) == forwarded
    assert headers["X"] == "y"


def test_a_response_sets_no_session_cookies_and_extends_no_service_worker() -> None:
    headers = CIMultiDict(
        [
            ("Set-Cookie", "__Host-sampan-6443=fixed; Path=/; Secure"),
            ("set-cookie", "sampan-6443=fixed"),
            ("Set-Cookie", "own=1"),
            ("Service-Worker-Allowed", "/"),
        ]
    )
    remove_origin_rights(headers)
    assert list(headers.items()) == [("Set-Cookie", "own=1")]


def test_a_page_has_an_origin_of_its_own_unless_another_proxy_shows_it() -> None:
    headers = CIMultiDict([("Content-Security-Policy", "default-src *")])
    isolate_page({}, headers)
    first, second = headers.getall("Content-Security-Policy")
    assert first == "default-src *"
    assert second.startswith("sandbox ")
    assert "allow-same-origin" not in second
    forwarded = CIMultiDict[str]()
    isolate_page({"X-Forwarded-For": "127.0.0.1"}, forwarded)
    assert not forwarded
