"""The events of an object, which conclude its description."""

from __future__ import annotations

import time
from typing import Any

from sampan.api.ages import age
from sampan.cli.kubectl.session import Session

_HEAD = ["Events:", "  Type\tReason\tAge\tFrom\tMessage", "  ----\t------\t----\t----\t-------"]


def events_of(session: Session, obj: dict[str, Any]) -> list[str]:
    """Return lines with tab-separated columns."""
    metadata = obj["metadata"]
    path = f"/api/v1/namespaces/{metadata.get('namespace') or 'default'}/events"
    response = session.get(path, {"fieldSelector": f"involvedObject.uid={metadata.get('uid', '')}"})
    events = sorted(response["items"] or [], key=_last_seen)
    return [*_HEAD, *(_line(event) for event in events)] if events else ["Events:\t<none>"]


def _line(event: dict[str, Any]) -> str:
    sender = (event.get("source") or {}).get("component") or event.get("reportingComponent", "")
    cells = [event.get("type", ""), event.get("reason", ""), _age(event), sender, event.get("message", "").strip()]
    return "  " + "\t".join(cells)


def _age(event: dict[str, Any]) -> str:
    count, now = (event.get("series") or {}).get("count") or event.get("count") or 0, time.time()
    last = age(_last_seen(event), now)
    if count <= 1:
        return last
    return f"{last} (x{count} over {age(event.get('firstTimestamp') or event.get('eventTime'), now)})"


def _last_seen(event: dict[str, Any]) -> str:
    series = event.get("series") or {}
    last_time = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return str(last_time or event["metadata"].get("creationTimestamp", ""))
