"""/metrics for Prometheus, /debug with the debug handlers of components, and below it the flight recorder and the
status of the store: its kind, its size, and the resources that it has most of."""

from __future__ import annotations

import heapq
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.api.values.integers import parse_int64
from sampan.apiserver.request.call import Call
from sampan.apiserver.response.responses import ApiResponse, RawResponse, ValueResponse, path_not_found
from sampan.machinery import errors
from sampan.machinery.telemetry.flight_recorder import FlightRecord, FlightRecorder
from sampan.machinery.telemetry.health import RESET_TEXT, HealthMetrics
from sampan.machinery.telemetry.metrics import CONTENT_TYPE, Metrics
from sampan.storage.backend import StorageError

if TYPE_CHECKING:
    from sampan.apiserver.registry.registry import Registry
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ApiResponse


Handler = Callable[["Call"], Awaitable["ApiResponse"]]


class DebugHandlers:
    """The handlers below /debug of the components in this process, by their full path. A component adds its own when it
    starts."""

    def __init__(self) -> None:
        self._by_path: dict[str, Handler] = {}

    def add(self, path: str, handler: Handler) -> None:
        self._by_path[path] = handler

    def find(self, path: str) -> Handler | None:
        return self._by_path.get(path)


class DebugHandler:
    def __init__(self, own: Mapping[str, Handler], others: DebugHandlers) -> None:
        """`own` has the handlers of the server itself, by their full path."""
        self._own, self._others = own, others

    async def handle(self, call: Call) -> ApiResponse:
        path = call.path.rstrip("/")
        handler = self._own.get(path) or self._others.find(path)
        return await handler(call) if handler is not None else path_not_found()


FLIGHT_RECORDER_PATH = "/debug/flightrecorder"
_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")


class FlightRecorderHandler:
    def __init__(self, recorder: FlightRecorder) -> None:
        self._recorder = recorder

    async def handle(self, call: Call) -> ApiResponse:
        if call.path.rstrip("/") != FLIGHT_RECORDER_PATH:
            return path_not_found()
        if call.method != "GET":
            raise errors.generic(405)
        after = call.query.get("after")
        number = parse_int64(after or "0")
        if number is None or number < 0:
            raise errors.bad_request(f"after: {after!r} is not the number of a record")
        uid, subject = call.query.get("uid"), call.query.get("subject")
        records = self._recorder.records_about(uid, after=number) if uid else self._recorder.records_since(number)
        if owner := call.query.get("owner"):
            records = (record for record in records if record.owner == owner)
        if action := call.query.get("action"):
            records = (record for record in records if record.action == action)
        if subject:
            records = (record for record in records if f"{record.subject}/".startswith(f"{subject}/"))
        selected = self._select_records(call, records)
        lines = b"".join(msgspec.json.encode(record) + b"\n" for record in selected)
        return RawResponse(lines, "application/x-ndjson")

    def _select_records(self, call: Call, records: Iterable[FlightRecord]) -> Iterable[FlightRecord]:
        """Select by `component` and by `since`, a time in seconds since the epoch; then the first `limit` or the last
        `tail` records."""
        if component := call.query.get("component"):
            records = (record for record in records if record.component == component)
        if since := _number(call, "since"):
            records = (record for record in records if record.time >= since)
        if (tail := _number(call, "tail")) is not None:
            records = deque(records, maxlen=int(tail))
        limit = _number(call, "limit")
        return records if limit is None else islice(records, int(limit))


def _number(call: Call, name: str) -> float | None:
    text = call.query.get(name)
    if not text:
        return None
    if not _DECIMAL.fullmatch(text):
        raise errors.bad_request(f"{name}: {text[:64]!r} is not a number")
    return float(text)


SLIS_PATH = "/metrics/slis"


class MetricsHandler:
    """Serves /metrics, and the results of health checks at /metrics/slis, which a DELETE resets."""

    def __init__(self, *, metrics: Metrics, slis: HealthMetrics) -> None:
        self._metrics, self._slis = metrics, slis

    async def handle(self, call: Call) -> RawResponse:
        if call.path == SLIS_PATH:
            if call.method == "DELETE":
                self._slis.reset()
                return RawResponse(RESET_TEXT.encode())
            return RawResponse(self._slis.text().encode(), CONTENT_TYPE)
        if call.path != "/metrics":
            return path_not_found()
        return RawResponse(self._metrics.text().encode(), CONTENT_TYPE)


STORE_STATUS_PATH = "/debug/store-status"
_MAX_LISTED_RESOURCES = 5


class StoreStatusHandler:
    def __init__(self, registry: Registry) -> None:
        self._backend, self._registry = registry.backend, registry

    async def handle(self, call: Call) -> ApiResponse:
        if call.method != "GET":
            raise errors.generic(405)
        try:
            size, revision = await self._backend.size(), await self._backend.current_revision()
        except StorageError as error:
            raise errors.service_unavailable(f"the store cannot be read: {error}") from None
        return ValueResponse(
            {
                "kind": self._backend.kind,
                "sizeBytes": size,
                "revision": revision,
                "compactedRevision": self._backend.compacted_revision,
                "writeFailure": self._backend.write_failure,
                **self._contents(),
            }
        )

    def _contents(self) -> dict[str, Any]:
        """Return the number and size of the objects in the watch caches. A resource that nobody has read yet has no
        watch cache."""
        stats = [(store.resource.qualified, store.cacher.stats()) for store in self._registry.stores()]
        largest = heapq.nlargest(_MAX_LISTED_RESOURCES, stats, key=lambda entry: entry[1].item_bytes)
        return {
            "objects": sum(entry.items for _, entry in stats),
            "objectBytes": sum(entry.item_bytes for _, entry in stats),
            "watchers": sum(entry.watchers for _, entry in stats),
            "largest": [
                {"resource": resource, "objects": entry.items, "bytes": entry.item_bytes}
                for resource, entry in largest
                if entry.items
            ],
        }
