import asyncio
import base64
from typing import Any

import pytest

from sampan.apiserver.authn.authenticator import (
    SUBPROTOCOL,
    AudienceAgnostic,
    CertificateAuthenticator,
    UnionAuthenticator,
    bearer_token,
    subprotocol_token,
)
from sampan.apiserver.authn.static_tokens import FileTokens
from sampan.apiserver.request.call import Call, Query, UserInfo
from sampan.machinery import errors
from sampan.machinery.pki.server_tls import PeerCertificate
from sampan.machinery.telemetry.metrics import Metrics

ALICE = PeerCertificate("alice", ("dev", "ops"), 1000.0)
BOB = UserInfo("bob", "2", ("system:authenticated",))


def _authenticate(
    authorization: str = "", client_certificate: PeerCertificate | None = None, now: float = 1000.0, **options: Any
) -> UserInfo:
    call = Call(
        method="GET",
        path="/healthz",
        query=Query(""),
        headers={"Authorization": authorization},
        client_certificate=client_certificate,
    )
    by_certificate = CertificateAuthenticator(now=lambda: now)
    chain = UnionAuthenticator([by_certificate], tokens=[FileTokens({"bob-token": BOB})], **options)
    return asyncio.run(chain.authenticate(call))


def test_client_certificate_sets_user_and_groups() -> None:
    assert _authenticate(client_certificate=ALICE) == UserInfo("alice", "", ("dev", "ops", "system:authenticated"))


def test_client_certificate_without_common_name_is_anonymous() -> None:
    assert _authenticate(client_certificate=PeerCertificate("", ("dev",), 1000.0)).name == "system:anonymous"


def test_client_certificate_that_expires_on_an_open_connection_is_rejected() -> None:
    with pytest.raises(errors.Unauthorized):
        _authenticate(client_certificate=ALICE, now=1000.1)
    assert _authenticate("Bearer bob-token", client_certificate=ALICE, now=1000.1) is BOB


def test_remaining_lifetimes_of_client_certificates_are_measured() -> None:
    metrics = Metrics()
    authenticator = CertificateAuthenticator(metrics=metrics, now=lambda: 1000.0 - 7200)
    call = Call(method="GET", path="/", query=Query(""), headers={}, client_certificate=ALICE)
    assert authenticator.authenticate(call) is not None
    lines = metrics.text().splitlines()
    assert 'apiserver_client_certificate_expiration_seconds_bucket{le="3600"} 0' in lines
    assert 'apiserver_client_certificate_expiration_seconds_bucket{le="7200"} 1' in lines
    assert "apiserver_client_certificate_expiration_seconds_sum 7200" in lines


def test_bearer_token_authenticates_its_user() -> None:
    assert _authenticate("Bearer bob-token") is BOB


def test_client_certificate_takes_precedence_over_bearer_token() -> None:
    assert _authenticate("Bearer bob-token", client_certificate=ALICE).name == "alice"
    assert _authenticate("Bearer wrong", client_certificate=ALICE).name == "alice"


@pytest.mark.parametrize("options", [{}, {"allows_anonymous": False}])
def test_invalid_token_is_rejected_even_if_anonymous_is_allowed(options: dict[str, Any]) -> None:
    with pytest.raises(errors.Unauthorized):
        _authenticate("Bearer wrong", **options)


def test_request_without_credentials_is_anonymous_if_allowed() -> None:
    assert _authenticate() == UserInfo("system:anonymous", "", ("system:unauthenticated",))
    assert _authenticate("Basic YTpi").name == "system:anonymous"
    with pytest.raises(errors.Unauthorized):
        _authenticate(allows_anonymous=False)


def test_anonymous_requests_can_be_limited_to_paths() -> None:
    assert _authenticate(anonymous_paths=("/healthz", "/livez")).name == "system:anonymous"
    with pytest.raises(errors.Unauthorized):
        _authenticate(anonymous_paths=("/livez",))


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
def test_bearer_token_is_parsed_from_the_authorization_header(header: str, token: str) -> None:
    call = _call(Authorization=header)
    assert bearer_token(call) == token
    assert call.warnings == []


def test_extra_space_before_bearer_token_causes_a_warning() -> None:
    call = _call(Authorization="Bearer  abc")
    assert bearer_token(call) == ""
    assert call.warnings == [
        "the provided Authorization header contains extra space before the bearer token, and is ignored"
    ]


def test_request_without_headers_has_no_token() -> None:
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
def test_token_is_parsed_from_the_websocket_subprotocol(protocols: list[str], upgrade: str, token: str) -> None:
    call = _call(Sec_WebSocket_Protocol=", ".join(protocols), Upgrade=upgrade)
    assert subprotocol_token(call) == token


@pytest.mark.parametrize(
    ("audiences", "common"),
    [
        (("own", "other"), ("own",)),
        (("other", "own", "second"), ("own", "second")),
        (("other",), None),
    ],
)
def test_tokens_without_audiences_are_valid_for_those_of_the_server(
    audiences: tuple[str, ...], common: tuple[str, ...] | None
) -> None:
    tokens = AudienceAgnostic(FileTokens({"bob-token": BOB}), audiences=["own", "second"])
    response = asyncio.run(tokens.authenticate_token("bob-token", audiences))
    assert (response and response.audiences) == common
    assert response is None or response.user is BOB
    assert asyncio.run(tokens.authenticate_token("wrong", audiences)) is None


def test_token_without_requested_audiences_is_authenticated() -> None:
    tokens = AudienceAgnostic(FileTokens({"bob-token": BOB}), audiences=["own"])
    response = asyncio.run(tokens.authenticate_token("bob-token"))
    assert response is not None
    assert response.user is BOB
