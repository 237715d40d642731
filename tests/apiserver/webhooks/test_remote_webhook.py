"""Asking a service outside: what is tried again, and what is not."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sampan.apiserver.webhooks.remote_webhook import RemoteReviewer, RemoteWebhookFailed, RetryPolicy
from sampan.machinery.clock import VirtualClock
from sampan.machinery.lru_cache import LruCache
from tests.apiserver.authn.https_service import outside

REVIEW = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
GOOD = {**REVIEW, "status": {"authenticated": True}}


class Service:
    """Does what it is told, one after the other; the last for ever."""

    def __init__(self, *deeds: Any) -> None:
        self.deeds, self.count = deeds, 0

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        deed = self.deeds[min(self.count, len(self.deeds) - 1)]
        self.count += 1
        if deed == "cut":
            assert request.transport is not None
            request.transport.close()
        if deed == "wait":
            await asyncio.Event().wait()
        if isinstance(deed, web.Response):
            return deed
        return web.json_response(deed)


def review(tmp_path: Path, service: Service, timeout_s: float = 60) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        async with outside(tmp_path, service.respond) as there:
            retry_policy = RetryPolicy(timeout_s=timeout_s, attempts=3, pause_s=0.001)
            reviewer = RemoteReviewer(there.access(), retry_policy=retry_policy)
            try:
                return await reviewer.status(REVIEW)
            finally:
                await reviewer.close()

    return asyncio.run(main())


@pytest.mark.parametrize("code", [429, 500, 504])
def test_what_may_pass_is_tried_again(tmp_path: Path, code: int) -> None:
    service = Service(web.Response(status=code), GOOD)
    assert review(tmp_path, service) == {"authenticated": True}
    assert service.count == 2


def test_a_service_that_says_when_to_come_again(tmp_path: Path) -> None:
    service = Service(web.Response(status=503, headers={"Retry-After": "1"}), GOOD)
    assert review(tmp_path, service) == {"authenticated": True}


def test_a_connection_that_breaks(tmp_path: Path) -> None:
    service = Service("cut", GOOD)
    assert review(tmp_path, service) == {"authenticated": True}
    assert service.count == 2


@pytest.mark.parametrize(
    ("deed", "fault"),
    [
        (web.Response(status=404), "could not find"),
        (web.Response(text="rubbish"), "is not a TokenReview"),
        ({"kind": "SubjectAccessReview", "status": {}}, "is a SubjectAccessReview, not a TokenReview"),
    ],
)
def test_what_will_not_pass_is_not(tmp_path: Path, deed: Any, fault: str) -> None:
    service = Service(deed)
    with pytest.raises(RemoteWebhookFailed, match=fault):
        review(tmp_path, service)
    assert service.count == 1


def test_a_service_that_does_not_answer(tmp_path: Path) -> None:
    service = Service("wait")
    with pytest.raises(RemoteWebhookFailed, match="timeout"):
        review(tmp_path, service, timeout_s=2)
    assert service.count == 1


async def test_answers_are_kept_for_a_while_and_not_too_many() -> None:
    clock = VirtualClock()
    kept: LruCache[str, int] = LruCache(clock=clock, most=2)
    kept.keep("a", 1, 10)
    kept.keep("b", 2, 20)
    kept.keep("none", 3, 0)
    assert kept.get("a") == 1
    kept.keep("c", 4, 10)
    assert (kept.get("a"), kept.get("b"), kept.get("c"), len(kept)) == (1, None, 4, 2)
    await clock.advance(10)
    assert kept.get("a") is None
    assert len(kept) == 1
