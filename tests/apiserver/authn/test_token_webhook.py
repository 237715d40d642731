"""Tokens that a service outside reviews, over HTTPS."""

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
from sampan.machinery.clock import VirtualClock
from tests.apiserver.authn.https_service import Outside, outside

ANN = {"username": "ann", "uid": "7", "groups": ["team"], "extra": {"colour": ["red"]}}
ANN_USER = UserInfo("ann", "7", ("team", "system:authenticated"), {"colour": ("red",)})
QUICK = RetryPolicy(timeout_s=60, attempts=3, pause_s=0.001)


class Service:
    """Knows ann's token. The first `failing` questions are answered with a 500."""

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


def webhook(service: Outside, clock: VirtualClock, **more: Any) -> TokenWebhook:
    settings = TokenWebhookSettings(access=service.access(), retry_policy=QUICK, **more)
    return TokenWebhook(settings=settings, audiences=("api",), clock=clock)


async def test_the_service_is_asked_once_in_a_while(tmp_path: Path) -> None:
    service, clock = Service(), VirtualClock()
    async with outside(tmp_path, service.respond) as there:
        tokens = webhook(there, clock, version="v1", kept_s=120)
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


async def test_those_who_come_together_share_one_question(tmp_path: Path) -> None:
    service = Service()
    async with outside(tmp_path, service.respond) as there:
        tokens = webhook(there, VirtualClock(), kept_s=0)
        try:
            results = await asyncio.gather(*(tokens.authenticate_token("good") for _ in range(20)))
            assert {result.user.name for result in results if result is not None} == {"ann"}
            assert len(service.requests) == 1
        finally:
            await tokens.close()


async def test_a_service_that_fails_is_asked_again(tmp_path: Path) -> None:
    service = Service(failing=2)
    async with outside(tmp_path, service.respond) as there:
        tokens = webhook(there, VirtualClock())
        try:
            assert await tokens.authenticate_token("good") is not None
            assert len(service.requests) == 3
            service.failing = 100
            with pytest.raises(TokenError):
                await tokens.authenticate_token("other")
            service.failing = 0
            assert await tokens.authenticate_token("other") is None, "a failure is not kept"
        finally:
            await tokens.close()


async def test_a_service_that_is_not_there(tmp_path: Path) -> None:
    async with outside(tmp_path, Service().respond) as there:
        pass
    tokens = webhook(there, VirtualClock())
    try:
        with pytest.raises(TokenError):
            await tokens.authenticate_token("good")
    finally:
        await tokens.close()


async def test_a_service_without_our_certificate_is_not_believed(tmp_path: Path) -> None:
    async with outside(tmp_path, Service().respond) as there:
        access = there.access()
        access.ca_pem = b""
        settings = TokenWebhookSettings(access=access, retry_policy=QUICK)
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


def test_the_error_of_the_service_is_reported() -> None:
    with pytest.raises(TokenError, match="too old"):
        authentication_response({"authenticated": False, "error": "too old"}, ["api"], ["api"])
