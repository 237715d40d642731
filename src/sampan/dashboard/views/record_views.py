"""Views of the flight recorder: the last minutes for the time slider, who changed what, and what controllers did."""

from __future__ import annotations

from collections import deque
from typing import Any

from aiohttp import web

from sampan.dashboard.responses import json_response
from sampan.dashboard.views.api_reader import ApiReader
from sampan.dashboard.views.pod_views import int_of
from sampan.diagnosis.cluster_reader import RECORDS_PATH, Object
from sampan.machinery.client.user_api import UserApi

_RECORDS, _MOST_RECORDS = 2000, 5000
_ACTIONS_OF_CONTROLLER = 5
_CONTROLLER_ACCOUNT = "system:serviceaccount:kube-system:"


async def recorder(request: web.BaseRequest, api: UserApi) -> web.StreamResponse:
    """Return the records after a time (`since`, in seconds since the epoch) or a number (`after`), oldest first, at
    most `limit` of them."""
    query = request.rel_url.query
    limit = min(int_of(request, "limit", _RECORDS), _MOST_RECORDS)
    parameters = {"after": str(int_of(request, "after", 0)), "limit": str(limit)}
    for name in ("since", "uid", "subject"):
        if query.get(name):
            parameters[name] = query[name]
    records = await ApiReader(api).read_lines(RECORDS_PATH, parameters)
    return json_response({"records": records, "more": len(records) >= limit})


async def audit(request: web.BaseRequest, api: UserApi) -> web.StreamResponse:
    """Return the last writes to the API, the latest first, selected by `actor`, `namespace`, `resource`, `name` and
    `failed`."""
    query = request.rel_url.query
    limit = min(int_of(request, "limit", 200), _MOST_RECORDS)
    records = await ApiReader(api).read_lines(RECORDS_PATH, {"component": "apiserver", "tail": str(_MOST_RECORDS)})
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
    return json_response({"entries": entries})


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


async def queues(request: web.BaseRequest, api: UserApi) -> web.StreamResponse:
    """Return the work queues of the controllers, with the last writes of each."""
    reader = ApiReader(api)
    controllers = list((await reader.read("/debug/controllers"))["controllers"])
    actions: dict[str, deque[dict[str, Any]]] = {}
    for record in await reader.read_lines(RECORDS_PATH, {"tail": str(_MOST_RECORDS)}):
        actor = str(record.get("actor", ""))
        if actor.startswith(_CONTROLLER_ACCOUNT):
            last = actions.setdefault(actor, deque(maxlen=_ACTIONS_OF_CONTROLLER))
            last.append(_audit_entry(record))
    for controller in controllers:
        controller["lastWrites"] = list(reversed(actions.get(str(controller.get("user", "")), ())))
    return json_response({"controllers": controllers})
