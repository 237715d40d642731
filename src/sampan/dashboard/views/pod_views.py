"""The history of a pod (`trace`) and the explanation of its state (`why`), as `sampan trace` and `sampan why` print
them in JSON."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from sampan.dashboard.responses import json_response
from sampan.dashboard.views.api_reader import ApiReader
from sampan.diagnosis.cluster_reader import RECORDS_PATH
from sampan.diagnosis.pod_explanation import explain_pod, is_schedulable
from sampan.diagnosis.pod_timeline import read_owner_records, timeline, timeline_value
from sampan.machinery import errors
from sampan.machinery.client.user_api import UserApi

_WHY = "/debug/scheduler/why"
_NODES, _MOST_NODES = 200, 1000


async def trace(request: web.BaseRequest, api: UserApi) -> web.StreamResponse:
    reader = ApiReader(api)
    pod = await _pod(request, reader)
    records = await reader.read_lines(RECORDS_PATH, {"uid": pod["metadata"]["uid"]})
    line = timeline(records, await read_owner_records(reader, pod))
    return json_response({**timeline_value(line), "records": records})


async def why(request: web.BaseRequest, api: UserApi) -> web.StreamResponse:
    """Explain a pod. `scheduling` has the results of each plug-in on each node, or is null if no scheduler can be
    asked."""
    reader = ApiReader(api)
    pod = await _pod(request, reader)
    explanation = await explain_pod(reader, pod)
    scheduling = None
    if is_schedulable(pod):
        limit = min(int_of(request, "limit", _NODES), _MOST_NODES)
        metadata = pod["metadata"]
        query = {"namespace": metadata["namespace"], "name": metadata["name"], "limit": str(limit)}
        scheduling = await reader.get(_WHY, query)
    return json_response(explanation.value(scheduling))


def int_of(request: web.BaseRequest, name: str, default: int) -> int:
    """Return a query parameter that is a number of at least 0."""
    text = request.rel_url.query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise errors.bad_request(f"{name}: {text[:64]!r} is not a number")
    return int(text)


async def _pod(request: web.BaseRequest, reader: ApiReader) -> Any:
    query = request.rel_url.query
    namespace, name = query.get("namespace", ""), query.get("name", "")
    if not namespace or not name or "/" in namespace + name:
        raise errors.bad_request("namespace and name of the pod are required")
    return await reader.read(f"/api/v1/namespaces/{namespace}/pods/{name}")
