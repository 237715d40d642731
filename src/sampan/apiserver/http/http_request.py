"""From an HTTP request to a call: decoding of path and query, flow control, and reading the body within limits.

Limits on concurrent requests apply unless API Priority and Fairness is enabled. Long-running requests (watches, streams
into containers) do not count, and members of system:masters are never rejected. A watch occupies seats of priority and
fairness until it has started. The counterparts are `maxinflight.go` and `priority-and-fairness.go` in
`k8s.io/apiserver/pkg/server/filters`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from time import perf_counter
from urllib.parse import unquote

from sampan.api import limits
from sampan.api.values import durations
from sampan.apiserver.flowcontrol.fairness import Fairness, Flow
from sampan.apiserver.flowcontrol.priority_level import PriorityLevel
from sampan.apiserver.http.acceptor import ApiConnection
from sampan.apiserver.http.connection_limits import HttpLimits
from sampan.apiserver.http.watch_quota import OpenWatch, WatchQuota
from sampan.apiserver.metrics import RequestMetrics
from sampan.apiserver.request.call import MASTERS, PROXIED_SUBRESOURCES, Call, Query
from sampan.host.http import BadBody, HttpRequest
from sampan.machinery import errors
from sampan.machinery.pki.server_tls import PeerCertificate
from sampan.machinery.telemetry.metrics import MetricNumber

_READS = frozenset({"get", "list"})
_LASTING = frozenset({"watch", "proxy"})
_LASTING_PARTS = frozenset({"attach", "exec", "log", "portforward", "proxy"})


def is_long_running(call: Call) -> bool:
    """Whether the request is long-running: it lasts as long as the client wants."""
    return call.verb in _LASTING or call.subresource in _LASTING_PARTS


class InFlightLimiter:
    def __init__(self, *, limits: HttpLimits, metrics: RequestMetrics, fairness: Fairness | None = None) -> None:
        self.fairness, self.metrics = fairness, metrics
        self.watches = WatchQuota()
        self._reading = _InFlightLimit(limits.reading, metrics.read_only)
        self._writing = _InFlightLimit(limits.writing, metrics.mutating)

    def enter(self, call: Call) -> MetricNumber | None:
        """Count a classified request and return the counter for `leave`. Raise TooManyRequests at the limit."""
        if is_long_running(call):
            return None
        lane = self._reading if call.verb in _READS else self._writing
        if self.fairness is None and lane.now.value >= lane.most and MASTERS not in call.user.groups:
            raise errors.too_many_requests("Too many requests, please try again later.", retry_after_s=1)
        lane.now.value += 1
        return lane.now

    def leave(self, entered: MetricNumber | None) -> None:
        if entered is not None:
            entered.value -= 1


@dataclass(slots=True)
class _InFlightLimit:
    most: int
    now: MetricNumber


_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SCHEMA_UID, _LEVEL_UID = "X-Kubernetes-PF-FlowSchema-UID", "X-Kubernetes-PF-PriorityLevel-UID"


class InvalidTarget(ValueError):
    """The request target is invalid."""


class FlowSeat:
    """The place of one request in flow control."""

    __slots__ = ("_entered", "_in_flight", "_level", "_watch", "_width", "flow")

    def __init__(self, in_flight: InFlightLimiter) -> None:
        self._in_flight = in_flight
        self._entered: MetricNumber | None = None
        self._watch: OpenWatch | None = None
        self._level: PriorityLevel | None = None
        """The priority level in which the request occupies seats."""
        self._width = 1
        """How many seats the request occupies."""
        self.flow: Flow | None = None

    def enter(self, call: Call) -> Awaitable[None] | None:
        try:
            return self._enter(call)
        except errors.TooManyRequests as error:
            self._in_flight.metrics.record_termination(call, error.code)
            raise

    def _enter(self, call: Call) -> Awaitable[None] | None:
        self._entered = self._in_flight.enter(call)
        is_watch = call.verb == "watch"
        if is_watch:
            self._watch = self._in_flight.watches.open(call)
        fairness = self._in_flight.fairness
        self.flow = fairness.flow(call) if fairness is not None else None
        if fairness is None or self.flow is None or (is_long_running(call) and not is_watch):
            return None
        level = fairness.levels.get(self.flow.level)
        if level is None:
            return None
        self._width = fairness.width(call)
        waiting = level.enter(self.flow.key, self._width)
        if waiting is not None:
            return self._await_seat(call, level, waiting)
        self._level = level
        return None

    async def _await_seat(self, call: Call, level: PriorityLevel, waiting: Awaitable[None]) -> None:
        start = perf_counter()
        try:
            await waiting
        except errors.TooManyRequests as error:
            self._in_flight.metrics.record_termination(call, error.code)
            raise
        finally:
            call.exclude_time(perf_counter() - start)
        self._level = level

    def leave(self) -> None:
        """Release the seats and counters when the request has finished."""
        self._in_flight.leave(self._entered)
        self._entered = None
        self.release_seats()
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def release_seats(self) -> None:
        if self._level is not None:
            self._level.leave(self._width)
            self._level = None


class HttpCallTransport(FlowSeat):
    """The transport of one HTTP request: flow control and the body."""

    __slots__ = ("_certificate", "_limits", "_request")

    def __init__(
        self,
        request: HttpRequest,
        *,
        in_flight: InFlightLimiter,
        limits: HttpLimits,
        certificate: PeerCertificate | None = None,
    ) -> None:
        """`certificate` is that of the user for whom a site makes the request. The certificates of the connection do
        not count for such a request."""
        super().__init__(in_flight)
        self._request, self._limits, self._certificate = request, limits, certificate

    def call(self) -> Call:
        """Return the call, whose body is not read yet. Raise `InvalidTarget` if the path is invalid."""
        request = self._request
        query = request.raw_query
        if query.count("&") >= limits.QUERY_PARAMETERS:
            raise InvalidTarget(f"more than {limits.QUERY_PARAMETERS} parameters")
        client_certificate, proxy_certificate = self._certificate, None
        connection = request.connection
        if request.prepare_response is None and isinstance(connection, ApiConnection):
            client_certificate, proxy_certificate = connection.client_certificate, connection.proxy_certificate
        return Call(
            method=request.method,
            path=_path(request.raw_path),
            query=Query(query),
            headers=_headers(request.headers),
            client_certificate=client_certificate,
            proxy_certificate=proxy_certificate,
            transport=self,
        )

    def time_limit_s(self, call: Call) -> float:
        """Return the timeout of the request: the requested one, up to the limit of the server."""
        maximum = self._limits.request_s
        if "timeout" not in call.query:
            return maximum
        text = call.query.get("timeout").strip()
        if not text:
            return maximum
        try:
            wish = durations.parse_duration(text)
        except durations.DurationError as error:
            raise errors.bad_request(f"invalid timeout specified in the request URL - {error}") from None
        return min(wish / durations.SECOND, maximum) if wish > 0 else maximum

    @property
    def target(self) -> str:
        return self._request.path_and_query

    @property
    def remote_address(self) -> str:
        return self._request.remote

    def flow_headers(self) -> dict[str, str]:
        """Return the response headers that name the flow schema and priority level."""
        fairness = self._in_flight.fairness
        if self.flow is None or fairness is None:
            return {}
        return {_SCHEMA_UID: self.flow.schema_uid, _LEVEL_UID: fairness.level_uid(self.flow)}

    async def read_body(self, call: Call) -> None:
        request = self._request
        if not request.has_body or (call.resource is not None and call.subresource in PROXIED_SUBRESOURCES):
            return
        body, max_bytes = request.body, self._limits.body_bytes
        wish = request.headers.get("Expect")
        if wish is not None and wish.lower() != "100-continue":
            raise errors.ApiError(f"Unknown Expect: {wish}", code=417, reason="ExpectationFailed")
        if body.is_ended and body.error is None:
            call.body = body.read_nowait()
            if len(call.body) > max_bytes:
                raise self._too_large_error()
            return
        if (request.content_length or 0) > max_bytes:
            raise self._too_large_error()
        request.send_continue()
        try:
            call.body = await self._read_pieces(max_bytes)
        except BadBody as error:
            raise errors.bad_request(f"the body of the request cannot be read: {error}") from None

    async def _read_pieces(self, max_bytes: int) -> bytes:
        pieces, size = [], 0
        while piece := await self._request.body.read():
            pieces.append(piece)
            size += len(piece)
            if size > max_bytes:
                raise self._too_large_error()
        return b"".join(pieces)

    def _too_large_error(self) -> errors.ApiError:
        return errors.request_entity_too_large(f"limit is {self._limits.body_bytes}")


def _path(raw: str) -> str:
    if raw[:1] != "/":
        raise InvalidTarget(raw)
    if "%" in raw:
        if _BAD_ESCAPE.search(raw):
            raise InvalidTarget(raw)
        return unquote(raw)
    return raw


def _clean(text: str) -> str:
    """Replace bytes that are not UTF-8, which are surrogates in headers and cannot be encoded."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    if all(map(str.isascii, headers.values())):
        return headers
    from multidict import CIMultiDict

    return CIMultiDict([(_clean(name), _clean(value)) for name, value in headers.items()])
