"""Explanations of the state of objects for failed tests: conditions, events, and why pods do not run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sampan.cli.why import explanation_text
from sampan.cli.why.workload_pods import selector_text
from sampan.diagnosis.missing_parts import is_healthy, is_placed, list_missing_parts, state_of
from sampan.machinery import errors
from sampan.machinery.cli_errors import CliError
from sampan.machinery.client import ConnectionFailed
from sampan.testing.manifests import Object
from sampan.testing.untyped_objects import KindNotServed, UntypedObjects

_WHY_PATH = "/debug/scheduler/why"
_MAX_PODS, _MAX_EVENTS, _MAX_NODES = 3, 10, 20


class ObjectDiagnosis:
    def __init__(self, objects: UntypedObjects) -> None:
        self._objects = objects

    async def explain(self, value: Object) -> list[str]:
        """Return lines about an object: its state, conditions and events, and the same for its pods."""
        metadata = value["metadata"]
        lines = [f"{value['kind']} {metadata['name']}: {_summary(value)}", *_condition_lines(value)]
        lines += await self._event_lines(value)
        if value["kind"] == "Pod":
            return lines + await self._explain_pod(value)
        pods = await self._pods_of(value)
        for pod in [pod for pod in pods if not is_healthy(pod)][:_MAX_PODS]:
            lines += _indent(await self.explain(pod))
        return lines

    async def _explain_pod(self, pod: Object) -> list[str]:
        if is_placed(pod):
            return [f"why: {reason}" for reason in list_missing_parts(pod)]
        metadata = pod["metadata"]
        query = [("namespace", metadata["namespace"]), ("name", metadata["name"]), ("limit", str(_MAX_NODES))]
        try:
            explanation = await self._objects.read(_WHY_PATH, query)
        except (errors.ApiError, ConnectionFailed):
            return ["why: the pod is bound to no node, and no scheduler explains why"]
        return ["why:", *_indent(explanation_text.lines(explanation, is_wide=False))]

    async def _pods_of(self, value: Object) -> list[Object]:
        """Return the pods that a workload or service selects; none for other kinds."""
        try:
            selector = selector_text(value)
            pods = await self._objects.resource_named("pods")
            return await self._objects.list(pods, value["metadata"].get("namespace", ""), labels=selector)
        except (CliError, errors.ApiError, ConnectionFailed, KindNotServed, AttributeError, KeyError, TypeError):
            return []  # selectors of other kinds, custom resources for example, may have any form

    async def _event_lines(self, value: Object) -> list[str]:
        metadata = value["metadata"]
        namespace = metadata.get("namespace", "default")
        try:
            events = await self._objects.list(
                await self._objects.resource_named("events"), namespace, fields=f"involvedObject.uid={metadata['uid']}"
            )
        except (errors.ApiError, ConnectionFailed, KindNotServed, KeyError):
            return []
        return event_lines(events)


def event_lines(events: Iterable[Mapping[str, Any]], limit: int = _MAX_EVENTS) -> list[str]:
    """Return a line for each of the latest events, oldest first."""
    latest = sorted(events, key=_event_time)[-limit:]
    return [_event_line(event) for event in latest]


def _event_time(event: Mapping[str, Any]) -> str:
    metadata = event.get("metadata") or {}
    return str(event.get("lastTimestamp") or event.get("eventTime") or metadata.get("creationTimestamp") or "")


def _event_line(event: Mapping[str, Any]) -> str:
    subject = event.get("involvedObject") or {}
    times = f" (x{event['count']})" if (event.get("count") or 0) > 1 else ""
    message = str(event.get("message") or "").strip()
    name = f"{str(subject.get('kind', '')).lower()}/{subject.get('name', '')}"
    return f"event: {event.get('type', 'Normal')} {event.get('reason', '')} {name}: {message}{times}"


def _summary(value: Object) -> str:
    if value["kind"] == "Pod":
        node = (value.get("spec") or {}).get("nodeName")
        return f"{state_of(value)}, on node {node}" if node else f"{state_of(value)}, bound to no node"
    metadata, status = value["metadata"], value.get("status") or {}
    parts = [f"generation {metadata['generation']}"] if metadata.get("generation") else []
    plain = {key: part for key, part in status.items() if isinstance(part, str | int | bool) and part != ""}
    parts += [f"{key} {part}" for key, part in plain.items()]
    if metadata.get("deletionTimestamp"):
        finalizers = ", ".join(metadata.get("finalizers") or ()) or "none"
        parts.append(f"deleted at {metadata['deletionTimestamp']}, finalizers: {finalizers}")
    return "; ".join(parts) or ("no status" if not status else "exists")


def _condition_lines(value: Object) -> list[str]:
    conditions: Sequence[Any] = (value.get("status") or {}).get("conditions") or ()
    return [_condition_line(condition) for condition in conditions if isinstance(condition, Mapping)]


def _condition_line(condition: Mapping[str, Any]) -> str:
    reason = ": ".join(str(condition[key]) for key in ("reason", "message") if condition.get(key))
    return f"condition: {condition.get('type')}={condition.get('status')}" + (f" ({reason})" if reason else "")


def _indent(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]
