"""The audit webhook: events are sent in batches, as EventLists, to a service outside of the cluster.

The counterparts are `k8s.io/apiserver/plugin/pkg/audit/webhook` and `plugin/pkg/audit/buffered`. Batches are sent one
after the other, so that a webhook that does not respond makes the buffer overflow instead of the memory.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sampan.api import limits
from sampan.apiserver.audit.buffer import MAX_ENTRIES, AuditBuffer
from sampan.apiserver.audit.event import AuditEntry, line
from sampan.apiserver.webhooks.remote_webhook import RemoteWebhook, RemoteWebhookFailed, RetryPolicy
from sampan.machinery.client.access import Access
from sampan.machinery.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

_HEAD = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":['
_LAST_ATTEMPT_S = 5.0
"""How long a server that stops waits for the webhook to receive the remaining events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditWebhookConfig:
    access: Access
    initial_backoff_s: float = 10
    """The pause before the first retry."""
    max_entries: int = MAX_ENTRIES
    """How many events may wait; further ones are dropped and counted."""
    max_batch: int = 400
    max_wait_s: float = 30
    """How long an event waits for others of its batch."""
    batches_per_s: float | None = 10
    """The limit of the average rate of batches; None for no limit."""
    burst: int = 15
    """How many batches may be sent at once if none was sent for a while."""


class AuditWebhook:
    def __init__(self, config: AuditWebhookConfig, *, metrics: Metrics) -> None:
        self._config = config
        self._webhook = RemoteWebhook(
            config.access, retry_policy=RetryPolicy(pause_s=config.initial_backoff_s, retries_every_error=True)
        )
        self._buffer = AuditBuffer(
            plugin="webhook",
            metrics=metrics,
            max_entries=config.max_entries,
            batch_entries=config.max_batch,
            batch_bytes=limits.AUDIT_LINE_BYTES,
        )
        self._tokens, self._counted_at = float(config.burst), time.monotonic()

    def put(self, entry: AuditEntry) -> None:
        self._buffer.put(entry)

    async def run(self) -> None:
        """Send entries until cancelled, and then try once to send the remaining ones."""
        batch: list[AuditEntry] = []
        try:
            while True:
                await self._wait_for_batch()
                await self._throttle()
                batch = self._buffer.take()
                await self._send(batch)
                batch = []
        finally:
            try:
                async with asyncio.timeout(_LAST_ATTEMPT_S):
                    while batch := batch or self._buffer.take():
                        await self._send(batch, attempts=1)
                        batch = []
            except TimeoutError:
                self._buffer.count_lost(len(batch))
            await self._webhook.close()

    async def _wait_for_batch(self) -> None:
        await self._buffer.is_filled.wait()
        try:
            async with asyncio.timeout(self._config.max_wait_s):
                await self._buffer.has_batch.wait()
        except TimeoutError:
            return  # the batch is sent although it is not full

    async def _throttle(self) -> None:
        rate = self._config.batches_per_s
        if rate is None:
            return
        await asyncio.sleep(max(0.0, 1 - self._refill(rate)) / rate)
        self._tokens = self._refill(rate) - 1

    def _refill(self, rate: float) -> float:
        now = time.monotonic()
        self._tokens = min(self._config.burst, self._tokens + (now - self._counted_at) * rate)
        self._counted_at = now
        return self._tokens

    async def _send(self, batch: Sequence[AuditEntry], *, attempts: int | None = None) -> None:
        body, count = await asyncio.to_thread(self._encode, batch)
        if not count:
            return
        try:
            await self._webhook.post(body, attempts=attempts)
        except RemoteWebhookFailed as error:
            self._buffer.count_lost(count)
            log.error("audit webhook: dropped %d events that could not be sent: %s", count, error)

    def _encode(self, batch: Sequence[AuditEntry]) -> tuple[bytes, int]:
        """Return the EventList, and how many events it has."""
        items: list[bytes] = []
        for entry in batch:
            try:
                items.append(line(entry).rstrip(b"\n"))
            except (ValueError, TypeError) as error:
                self._buffer.count_lost(1)
                log.error("audit webhook: dropped event %s: %s", entry.event.auditID, error)
        return _HEAD + b",".join(items) + b"]}", len(items)
