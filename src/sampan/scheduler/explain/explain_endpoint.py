"""The HTTP API for explanations and decisions, independent of the server that receives the requests.

`GET /debug/scheduler/why?namespace=NS&name=NAME` explains an existing pod, `POST` with a Pod explains a hypothetical
one; `GET /debug/scheduler/decisions` returns the last decisions as JSON lines, oldest first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from sampan.api.codec import json
from sampan.api.codec.errors import DecodeError
from sampan.api.types.core_v1 import Pod
from sampan.api.values.integers import parse_int64
from sampan.scheduler.explain.explain import MAX_REPORTED_NODES, explain, find_pod
from sampan.scheduler.explain.report import LastDecision
from sampan.scheduler.framework.plugin_failure import PluginFailure

if TYPE_CHECKING:
    from sampan.scheduler.scheduler import Scheduler

log = logging.getLogger(__name__)

WHY, DECISIONS = "/debug/scheduler/why", "/debug/scheduler/decisions"


class EndpointResponse(NamedTuple):
    code: int
    body: bytes
    content_type: str = "application/json"


class ExplainEndpoint:
    def __init__(self, scheduler: Callable[[], Scheduler | None], now: Callable[[], float]) -> None:
        """Answer from the scheduler that `scheduler()` returns, which is None while another process is the leader."""
        self._scheduler, self._now = scheduler, now

    async def handle(self, method: str, path: str, query: Mapping[str, str], body: bytes) -> EndpointResponse:
        scheduler = self._scheduler()
        if scheduler is None:
            return _failure(503, "the scheduler is not running in this process")
        if path == DECISIONS:
            return _decisions(scheduler)
        limit = parse_int64(query.get("limit", str(MAX_REPORTED_NODES)))
        if limit is None or limit < 0:
            return _failure(400, f"limit: {query['limit']!r} is not a number")
        if method == "POST":
            return await self._explain_hypothetical(scheduler, body, limit)
        namespace, name = query.get("namespace", ""), query.get("name", "")
        pod = find_pod(scheduler, namespace, name)
        if pod is None:
            return _failure(404, f"pod {namespace}/{name} is not in the cache of the scheduler")
        return await self._explain(scheduler, pod, limit)

    async def _explain_hypothetical(self, scheduler: Scheduler, body: bytes, limit: int) -> EndpointResponse:
        try:
            pod = json.read(body, Pod)
        except DecodeError as error:
            return _failure(400, f"the body is not a Pod: {error}")
        return await self._explain(scheduler, pod, limit)

    async def _explain(self, scheduler: Scheduler, pod: Pod, limit: int) -> EndpointResponse:
        try:
            explanation = await explain(scheduler, pod, now=self._now(), max_nodes=limit)
        except PluginFailure as error:
            log.exception("cannot explain pod %s/%s", pod.metadata.namespace, pod.metadata.name)
            return _failure(500, str(error))
        return EndpointResponse(200, msgspec.json.encode(explanation))


class DecisionLine(LastDecision):
    pod: str = ""
    uid: str = ""


def _decisions(scheduler: Scheduler) -> EndpointResponse:
    lines = [
        DecisionLine.from_decision(decision, pod=decision.pod, uid=decision.uid)
        for decision in scheduler.history.list_decisions()
    ]
    return EndpointResponse(200, b"".join(msgspec.json.encode(line) + b"\n" for line in lines), "application/x-ndjson")


def _failure(code: int, message: str) -> EndpointResponse:
    return EndpointResponse(
        code, msgspec.json.encode({"kind": "Status", "status": "Failure", "message": message, "code": code})
    )
