import base64

import pytest

from sampan.apiserver.authn.authenticator import SUBPROTOCOL, bearer_token, subprotocol_token
from sampan.apiserver.request.call import Call, Query


def _call(**headers: str) -> Call:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Call(method="GET", path="/", query=Query(""), headers=named)


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("BEARER abc", "abc"),
        ("  Bearer abc ", "abc"),
        ("Bearer abc def", "abc"),
        ("Bearer", ""),
        ("Bearer ", ""),
        ("", ""),
        ("abc", ""),
        ("Basic YTpi", ""),
        ("Bearer\tabc", ""),
    ],
)
def test_the_token_of_a_header(header: str, token: str) -> None:
    call = _call(Authorization=header)
    assert bearer_token(call) == token
    assert call.warnings == []


def test_two_spaces_hide_the_token_and_are_reported() -> None:
    call = _call(Authorization="Bearer  abc")
    assert bearer_token(call) == ""
    assert call.warnings == [
        "the provided Authorization header contains extra space before the bearer token, and is ignored"
    ]


def test_no_header_no_token() -> None:
    assert bearer_token(_call()) == ""
    assert subprotocol_token(_call()) == ""


def _protocol(token: bytes) -> str:
    return SUBPROTOCOL + base64.urlsafe_b64encode(token).decode().rstrip("=")


@pytest.mark.parametrize(
    ("protocols", "upgrade", "token"),
    [
        ([_protocol(b"abc"), "x"], "websocket", "abc"),
        (["x", _protocol(b"a>b?c")], "WebSocket", "a>b?c"),
        ([_protocol(b"abc")], "websocket", ""),
        ([_protocol(b"abc"), _protocol(b"def"), "x"], "websocket", ""),
        ([SUBPROTOCOL + "!!", "x"], "websocket", ""),
        ([_protocol(b"\xff\xfe"), "x"], "websocket", ""),
        (["x", "y"], "websocket", ""),
        ([_protocol(b"abc"), "x"], "", ""),
    ],
)
def test_the_token_of_a_subprotocol(protocols: list[str], upgrade: str, token: str) -> None:
    call = _call(Sec_WebSocket_Protocol=", ".join(protocols), Upgrade=upgrade)
    assert subprotocol_token(call) == token
