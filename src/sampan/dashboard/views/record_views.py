"""Views of records that components keep: the history of a pod (`trace`) and the explanation of its state (`why`), in
the JSON format of these commands, the flight recorder, the audit of writes, and the queues of the controllers.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from sampan.dashboard.responses import json_response
from sampan.dashboard.views.api_reader import ApiReader
from sampan.diagnosis.cluster_reader import RECORDS_PATH, Object
from sampan.diagnosis.pod_cause import read_owner_records
from sampan.diagnosis.pod_explanation import explain_pod, is_schedulable
from sampan.diagnosis.pod_timeline import timeline, timeline_value
from sampan.host.http import HttpRequest, StreamResponse
from sampan.machinery import errors
from sampan.machinery.client.user_api import UserApi

_WHY = "/debug/scheduler/why"
_DEFAULT_NODES, _MAX_NODES = 200, 1000


async def trace(request: HttpRequest, api: UserApi) -> StreamResponse | None:
    reader = ApiReader(api)
    pod = await _pod(request, reader)
    records = await reader.read_lines(RECORDS_PATH, {"uid": pod["metadata"]["uid"]})
    line = timeline(records, await read_owner_records(reader, pod))
    begin = await read_recorder_begin(reader)
    return json_response({**timeline_value(line), "records": records, "recorderBegin": begin})


async def read_recorder_begin(reader: ApiReader) -> float | None:
    """Return the time of the oldest record of the flight recorder, in seconds since the epoch; None if it has none.
    What happened earlier is not known: the server did not run, or the records were overwritten."""
    records = await reader.read_lines(RECORDS_PATH, {"limit": "1"})
    return float(records[0]["time"]) if records else None


async def why(request: HttpRequest, api: UserApi) -> StreamResponse | None:
    """Explain the state of a pod. `scheduling` has the results of each plugin on each node, or is null if no scheduler
    can be reached."""
    reader = ApiReader(api)
    pod = await _pod(request, reader)
    explanation = await explain_pod(reader, pod)
    scheduling = None
    if is_schedulable(pod):
        limit = min(int_of(request, "limit", _DEFAULT_NODES), _MAX_NODES)
        metadata = pod["metadata"]
        query = {"namespace": metadata["namespace"], "name": metadata["name"], "limit": str(limit)}
        scheduling = await reader.get(_WHY, query)
    return json_response(explanation.value(scheduling))


def int_of(request: HttpRequest, name: str, default: int) -> int:
    """Return a query parameter that is a number of at least 0."""
    text = request.query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise errors.bad_request(f"{name}: {text[:64]!r} is not a number")
    return int(text)


async def _pod(request: HttpRequest, reader: ApiReader) -> Any:
    query = request.query
    namespace, name = query.get("namespace", ""), query.get("name", "")
    if not namespace or not name or "/" in namespace + name:
        raise errors.bad_request("namespace and name of the pod are required")
    return await reader.read(f"/api/v1/namespaces/{namespace}/pods/{name}")


_DEFAULT_RECORDS, _MAX_RECORDS = 2000, 5000
_MAX_ACTIONS_PER_CONTROLLER = 5
_CONTROLLER_ACCOUNT = "system:serviceaccount:kube-system:"


async def recorder(request: HttpRequest, api: UserApi) -> StreamResponse | None:
    """Return the records after a time (`since`, in seconds since the epoch) or a number (`after`), oldest first, at
    most `limit` of them, and the time at which the recorder begins."""
    query = request.query
    limit = min(int_of(request, "limit", _DEFAULT_RECORDS), _MAX_RECORDS)
    parameters = {"after": str(int_of(request, "after", 0)), "limit": str(limit)}
    for name in ("since", "uid", "subject"):
        if query.get(name):
            parameters[name] = query[name]
    reader = ApiReader(api)
    records = await reader.read_lines(RECORDS_PATH, parameters)
    begin = await read_recorder_begin(reader)
    return json_response({"records": records, "more": len(records) >= limit, "recorderBegin": begin})


async def audit(request: HttpRequest, api: UserApi) -> StreamResponse | None:
    """Return the last writes to the API, the latest first, selected by `actor`, `namespace`, `resource`, `name` and
    `failed`, and the time since which writes are known."""
    query = request.query
    limit = min(int_of(request, "limit", 200), _MAX_RECORDS)
    reader = ApiReader(api)
    records = await reader.read_lines(RECORDS_PATH, {"component": "apiserver", "tail": str(_MAX_RECORDS)})
    begin = records[0]["time"] if len(records) >= _MAX_RECORDS else await read_recorder_begin(reader)
    entries: list[dict[str, Any]] = []
    for record in reversed(records):
        entry = _audit_entry(record)
        is_selected = all(
            query.get(name, "") in ("", entry[name]) for name in ("actor", "namespace", "resource", "name", "action")
        )
        if is_selected and not (query.get("failed") and entry["outcome"].startswith("2")):
            entries.append(entry)
        if len(entries) >= limit:
            break
    return json_response({"entries": entries, "recorderBegin": begin})


def _audit_entry(record: Object) -> dict[str, Any]:
    subject = str(record.get("subject", ""))
    is_path = subject.startswith("/")
    parts = [] if is_path else subject.split("/")
    is_namespaced = len(parts) > 2 or (len(parts) == 2 and parts[0] not in ("nodes", "namespaces"))
    resource = parts[0] if parts else ""
    namespace, name = (parts[1] if is_namespaced else "", parts[2] if len(parts) > 2 else "") if parts else ("", "")
    if not is_namespaced and len(parts) > 1:
        name = parts[1]
    return {
        "number": record["number"],
        "time": record["time"],
        "actor": str(record.get("actor", "")),
        "action": str(record.get("action", "")),
        "subject": subject,
        "resource": resource,
        "namespace": namespace,
        "name": name,
        "subresource": parts[3] if len(parts) > 3 else "",
        "outcome": str(record.get("outcome", "")),
        "revision": record.get("revision", ""),
        "uid": record.get("uid", ""),
        "tookSeconds": record.get("took", 0.0),
    }


async def queues(request: HttpRequest, api: UserApi) -> StreamResponse | None:
    """Return the work queues of the controllers, with the last writes of each."""
    reader = ApiReader(api)
    controllers = list((await reader.read("/debug/controllers"))["controllers"])
    actions: dict[str, deque[dict[str, Any]]] = {}
    for record in await reader.read_lines(RECORDS_PATH, {"tail": str(_MAX_RECORDS)}):
        actor = str(record.get("actor", ""))
        if actor.startswith(_CONTROLLER_ACCOUNT):
            last = actions.setdefault(actor, deque(maxlen=_MAX_ACTIONS_PER_CONTROLLER))
            last.append(_audit_entry(record))
    for controller in controllers:
        controller["lastWrites"] = list(reversed(actions.get(str(controller.get("user", "")), ())))
    return json_response({"controllers": controllers})
