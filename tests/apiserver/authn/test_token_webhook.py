"""Tokens that an external webhook reviews over HTTPS."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sampan.apiserver.authn.authenticator import AuthenticationResponse, TokenError
from sampan.apiserver.authn.token_webhook import TokenWebhook, TokenWebhookSettings, authentication_response
from sampan.apiserver.request.call import UserInfo
from sampan.apiserver.webhooks.remote_webhook import RetryPolicy
from sampan.host.clock import VirtualClock
from tests.apiserver.authn.https_service import HttpsEndpoint, https_endpoint

ANN = {"username": "ann", "uid": "7", "groups": ["team"], "extra": {"colour": ["red"]}}
ANN_USER = UserInfo("ann", "7", ("team", "system:authenticated"), {"colour": ("red",)})
RETRY_POLICY = RetryPolicy(timeout_s=60, attempts=3, pause_s=0.001)


class Service:
    """A webhook that accepts only the token `good`. The first `failing` requests get a 500."""

    def __init__(self, failing: int = 0) -> None:
        self.requests: list[dict[str, Any]] = []
        self.failing = failing

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        review = await request.json()
        self.requests.append(review)
        if len(self.requests) <= self.failing:
            return web.Response(status=500)
        status = {"authenticated": review["spec"]["token"] == "good", "user": ANN}
        return web.json_response({**review, "status": status})


def webhook(endpoint: HttpsEndpoint, clock: VirtualClock, **options: Any) -> TokenWebhook:
    settings = TokenWebhookSettings(access=endpoint.access(), retry_policy=RETRY_POLICY, **options)
    return TokenWebhook(settings=settings, audiences=("api",), clock=clock)


async def test_token_review_responses_are_cached(tmp_path: Path) -> None:
    service, clock = Service(), VirtualClock()
    async with https_endpoint(tmp_path, service.respond) as endpoint:
        tokens = webhook(endpoint, clock, version="v1", kept_s=120)
        try:
            assert await tokens.authenticate_token("good") == AuthenticationResponse(ANN_USER, ("api",))
            assert await tokens.authenticate_token("good") == AuthenticationResponse(ANN_USER, ("api",))
            assert await tokens.authenticate_token("bad") is None
            assert await tokens.authenticate_token("bad") is None
            assert [review["spec"] for review in service.requests] == [
                {"token": "good", "audiences": ["api"]},
                {"token": "bad", "audiences": ["api"]},
            ]
            assert {review["apiVersion"] for review in service.requests} == {"authentication.k8s.io/v1"}
            await clock.advance(121)
            await tokens.authenticate_token("good")
            assert len(service.requests) == 3
        finally:
            await tokens.close()


async def test_concurrent_requests_share_one_token_review(tmp_path: Path) -> None:
    service = Service()
    async with https_endpoint(tmp_path, service.respond) as endpoint:
        tokens = webhook(endpoint, VirtualClock(), kept_s=0)
        try:
            results = await asyncio.gather(*(tokens.authenticate_token("good") for _ in range(20)))
            assert {result.user.name for result in results if result is not None} == {"ann"}
            assert len(service.requests) == 1
        finally:
            await tokens.close()


async def test_failed_token_reviews_are_retried_and_not_cached(tmp_path: Path) -> None:
    service = Service(failing=2)
    async with https_endpoint(tmp_path, service.respond) as endpoint:
        tokens = webhook(endpoint, VirtualClock())
        try:
            assert await tokens.authenticate_token("good") is not None
            assert len(service.requests) == 3
            service.failing = 100
            with pytest.raises(TokenError):
                await tokens.authenticate_token("other")
            service.failing = 0
            assert await tokens.authenticate_token("other") is None, "a failure is not cached"
        finally:
            await tokens.close()


async def test_unreachable_webhook_is_a_token_error(tmp_path: Path) -> None:
    async with https_endpoint(tmp_path, Service().respond) as endpoint:
        pass
    tokens = webhook(endpoint, VirtualClock())
    try:
        with pytest.raises(TokenError):
            await tokens.authenticate_token("good")
    finally:
        await tokens.close()


async def test_webhook_with_an_untrusted_certificate_is_rejected(tmp_path: Path) -> None:
    async with https_endpoint(tmp_path, Service().respond) as endpoint:
        access = endpoint.access()
        access.ca_pem = b""
        settings = TokenWebhookSettings(access=access, retry_policy=RETRY_POLICY)
        tokens = TokenWebhook(settings=settings, audiences=(), clock=VirtualClock())
        try:
            with pytest.raises(TokenError, match="certificate"):
                await tokens.authenticate_token("good")
        finally:
            await tokens.close()


@pytest.mark.parametrize(
    ("status", "audiences", "expected"),
    [
        ({"authenticated": True, "user": ANN}, ["api", "x"], AuthenticationResponse(ANN_USER, ("api",))),
        ({"authenticated": True, "user": ANN}, ["x"], None),
        (
            {"authenticated": True, "user": ANN, "audiences": ["x"]},
            ["x", "y"],
            AuthenticationResponse(ANN_USER, ("x",)),
        ),
        ({"authenticated": True, "user": ANN, "audiences": ["z"]}, ["x"], None),
        ({"authenticated": False}, ["api"], None),
        ({}, ["api"], None),
    ],
)
def test_the_audiences_of_a_review_are_intersected(
    status: dict[str, Any], audiences: Sequence[str], expected: AuthenticationResponse | None
) -> None:
    assert authentication_response(status, audiences, ["api"]) == expected


def test_error_in_the_review_status_is_reported() -> None:
    with pytest.raises(TokenError, match="too old"):
        authentication_response({"authenticated": False, "error": "too old"}, ["api"], ["api"])
