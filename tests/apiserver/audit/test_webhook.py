"""The audit webhook: batches, retries, bounds, and the remaining events at the end."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sampan.apiserver.audit.webhook import AuditWebhook, AuditWebhookConfig
from sampan.machinery.telemetry.metrics import Metrics
from tests.apiserver.audit.audit_entries import entry
from tests.apiserver.authn.https_service import https_endpoint

HOUR_S = 3600.0


class Receiver:
    """A webhook that rejects the first requests with the given codes and keeps the event lists that it accepts."""

    def __init__(self, *codes: int) -> None:
        self._codes = list(codes)
        self.refused: list[int] = []
        self.lists: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._codes:
            self.refused.append(self._codes.pop(0))
            return web.Response(status=self.refused[-1])
        self.lists.put_nowait(await request.json())
        return web.Response()

    async def receive_ids(self) -> list[str]:
        content = await asyncio.wait_for(self.lists.get(), 60)
        assert {**content, "items": []} == {
            "kind": "EventList",
            "apiVersion": "audit.k8s.io/v1",
            "metadata": {},
            "items": [],
        }
        return [event["auditID"] for event in content["items"]]


@asynccontextmanager
async def running_webhook(
    directory: Path, receiver: Receiver, metrics: Metrics | None = None, **settings: Any
) -> AsyncIterator[AuditWebhook]:
    async with https_endpoint(directory, receiver.respond) as endpoint:
        config = AuditWebhookConfig(access=endpoint.access(), initial_backoff_s=0.001, **settings)
        webhook = AuditWebhook(config, metrics=metrics or Metrics())
        running = asyncio.create_task(webhook.run())
        await asyncio.sleep(0)
        try:
            yield webhook
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def test_events_are_sent_in_batches_in_order(tmp_path: Path) -> None:
    receiver = Receiver()
    async with running_webhook(tmp_path, receiver, max_batch=2, max_wait_s=HOUR_S) as webhook:
        for number in range(5):
            webhook.put(entry(str(number)))
        assert await receiver.receive_ids() == ["0", "1"]
        assert await receiver.receive_ids() == ["2", "3"]
    assert await receiver.receive_ids() == ["4"], "the remaining event is sent when the server stops"


async def test_incomplete_batch_is_sent_after_max_wait(tmp_path: Path) -> None:
    receiver = Receiver()
    async with running_webhook(tmp_path, receiver, max_wait_s=0.001) as webhook:
        webhook.put(entry("1"))
        assert await receiver.receive_ids() == ["1"]


async def test_rejected_batch_is_retried(tmp_path: Path) -> None:
    receiver = Receiver(400, 503)
    async with running_webhook(tmp_path, receiver, max_batch=1) as webhook:
        webhook.put(entry("1"))
        assert await receiver.receive_ids() == ["1"]
    assert receiver.refused == [400, 503]


async def test_batch_is_dropped_and_counted_after_the_last_retry(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver, metrics = Receiver(*[500] * 5), Metrics()
    async with running_webhook(tmp_path, receiver, metrics, max_batch=2, max_wait_s=HOUR_S) as webhook:
        for number in range(4):
            webhook.put(entry(str(number)))
        assert await receiver.receive_ids() == ["2", "3"]
    assert 'apiserver_audit_error_total{plugin="webhook"} 2' in metrics.text()
    (message,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert message.startswith("audit webhook: dropped 2 events that could not be sent: ")


async def test_events_beyond_the_buffer_limit_are_dropped_and_counted(tmp_path: Path) -> None:
    receiver, metrics = Receiver(), Metrics()
    async with running_webhook(tmp_path, receiver, metrics, max_entries=3, max_wait_s=HOUR_S) as webhook:
        for number in range(5):
            webhook.put(entry(str(number)))
    assert await receiver.receive_ids() == ["0", "1", "2"]
    assert 'apiserver_audit_error_total{plugin="webhook"} 2' in metrics.text()


async def test_batches_beyond_the_burst_are_throttled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A webhook without throttling sends ten batches meanwhile, so that a third throttled batch would have arrived."""
    receiver, other_receiver = Receiver(), Receiver()
    directory, other_directory = tmp_path_factory.mktemp("throttled"), tmp_path_factory.mktemp("other")
    async with (
        running_webhook(other_directory, other_receiver, max_batch=1, batches_per_s=None) as other_webhook,
        running_webhook(directory, receiver, max_batch=1, batches_per_s=1 / HOUR_S, burst=2) as webhook,
    ):
        for number in range(4):
            webhook.put(entry(str(number)))
        assert [await receiver.receive_ids(), await receiver.receive_ids()] == [["0"], ["1"]]
        for number in range(10):
            other_webhook.put(entry(str(number)))
            assert await other_receiver.receive_ids() == [str(number)]
        assert receiver.lists.empty()
    assert [await receiver.receive_ids(), await receiver.receive_ids()] == [["2"], ["3"]]
