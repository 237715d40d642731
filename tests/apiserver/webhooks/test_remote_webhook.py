"""Requests to external webhooks: retries and errors."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sampan.apiserver.webhooks.remote_webhook import RemoteReviewer, RemoteWebhookFailed, RetryPolicy
from tests.apiserver.authn.https_service import https_endpoint

REVIEW = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
GOOD = {**REVIEW, "status": {"authenticated": True}}


class Service:
    """A webhook that performs these actions one after another and repeats the last one."""

    def __init__(self, *actions: Any) -> None:
        self.actions = actions
        self.times: list[float] = []
        """When each request arrived, by the clock of the event loop."""

    @property
    def count(self) -> int:
        return len(self.times)

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        action = self.actions[min(self.count, len(self.actions) - 1)]
        self.times.append(asyncio.get_running_loop().time())
        if action == "disconnect":
            assert request.transport is not None
            request.transport.close()
        if action == "wait":
            await asyncio.Event().wait()
        if isinstance(action, web.Response):
            return action
        return web.json_response(action)


def review(tmp_path: Path, service: Service, timeout_s: float = 60) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        async with https_endpoint(tmp_path, service.respond) as endpoint:
            retry_policy = RetryPolicy(timeout_s=timeout_s, attempts=3, pause_s=0.001)
            reviewer = RemoteReviewer(endpoint.access(), retry_policy=retry_policy)
            try:
                return await reviewer.status(REVIEW)
            finally:
                await reviewer.close()

    return asyncio.run(main())


@pytest.mark.parametrize("code", [429, 500, 504])
def test_temporary_errors_are_retried(tmp_path: Path, code: int) -> None:
    service = Service(web.Response(status=code), GOOD)
    assert review(tmp_path, service) == {"authenticated": True}
    assert service.count == 2


def test_response_503_is_retried_after_its_retry_after_delay(tmp_path: Path) -> None:
    service = Service(web.Response(status=503, headers={"Retry-After": "1"}), GOOD)
    assert review(tmp_path, service) == {"authenticated": True}
    first, second = service.times
    assert second - first >= 1


def test_response_503_without_retry_after_is_not_retried(tmp_path: Path) -> None:
    service = Service(web.Response(status=503))
    with pytest.raises(RemoteWebhookFailed, match="unable to handle"):
        review(tmp_path, service)
    assert service.count == 1


def test_broken_connection_is_retried(tmp_path: Path) -> None:
    service = Service("disconnect", GOOD)
    assert review(tmp_path, service) == {"authenticated": True}
    assert service.count == 2


@pytest.mark.parametrize(
    ("action", "fault"),
    [
        (web.Response(status=404), "could not find"),
        (web.Response(text="rubbish"), "is not a TokenReview"),
        ({"kind": "SubjectAccessReview", "status": {}}, "is a SubjectAccessReview, not a TokenReview"),
    ],
)
def test_permanent_errors_are_not_retried(tmp_path: Path, action: Any, fault: str) -> None:
    service = Service(action)
    with pytest.raises(RemoteWebhookFailed, match=fault):
        review(tmp_path, service)
    assert service.count == 1


def test_timeout_is_not_retried(tmp_path: Path) -> None:
    service = Service("wait")
    with pytest.raises(RemoteWebhookFailed, match="timeout"):
        review(tmp_path, service, timeout_s=0.2)
    assert service.count <= 1, "on a busy machine the time may be over before the request arrives"
