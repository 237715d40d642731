"""A text with the state of a cluster for the report of a failed test: objects, events, recent actions, log lines.

The size is bounded, and the values of Secrets are masked.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

from sampan.api.codec import yaml
from sampan.api.resources.resource import Resource
from sampan.api.values import times
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed
from sampan.machinery.telemetry.flight_recorder import FlightRecord, FlightRecorder
from sampan.testing.manifests import Object
from sampan.testing.object_diagnosis import event_lines
from sampan.testing.untyped_objects import UntypedObjects

_MAX_LINES = 40

MASK = "***"
_OBJECT_LIMIT = 3 << 10
_MAX_OBJECTS, _MAX_EVENTS, _MAX_RECORDS = 100, 40, 30
"""How many objects of one kind, events and records are read at most."""
_UNINTERESTING = {
    ("ConfigMap", "kube-root-ca.crt"),
    ("ServiceAccount", "default"),
}
_SUMMARIZED = ("Event", "EndpointSlice", "Endpoints", "ControllerRevision", "Lease", "PodMetrics")
"""Kinds that the dump leaves out. Events are listed separately, and the other kinds repeat the content of other
objects."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class LogTail(logging.Handler):
    """Keeps the last lines that Sampan's components have logged in this process."""

    def __init__(self, lines: int = _MAX_LINES) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=lines)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))

    def lines(self) -> Sequence[str]:
        return list(self._lines)

    def __enter__(self) -> LogTail:
        logging.getLogger("sampan").addHandler(self)
        return self

    def __exit__(self, *exc: object) -> None:
        logging.getLogger("sampan").removeHandler(self)


class ClusterDump:
    def __init__(
        self, *, objects: UntypedObjects, recorder: FlightRecorder | None, log_lines: Sequence[str] = ()
    ) -> None:
        self._objects, self._recorder, self._log_lines = objects, recorder, log_lines

    async def text(self, namespace: str, limit: int) -> str:
        """Return the dump of a namespace, at most `limit` characters; the objects are cut first."""
        tail = await self._tail(namespace)
        head = "\n".join(await self._object_texts(namespace, max(limit - len(tail), limit // 2)))
        text = f"{head}\n{tail}" if tail else head
        return text if len(text) <= limit else f"{text[: limit - 4].rstrip()}\n..."

    async def _tail(self, namespace: str) -> str:
        sections = (
            (f"events in {namespace}", await self._events(namespace)),
            ("recent writes", self._records(namespace)),
            ("log of the components", list(self._log_lines)),
        )
        return "\n".join("\n".join([f"-- {title}", *lines]) for title, lines in sections if lines)

    async def _object_texts(self, namespace: str, limit: int) -> list[str]:
        texts, length, omitted = [f"-- objects in {namespace}"], 0, 0
        for resource in await self._objects.resources():
            if not resource.namespaced or "list" not in resource.verbs or resource.kind in _SUMMARIZED:
                continue
            values, further = await self._list(resource, namespace)
            omitted += further
            for value in values:
                if (resource.kind, value["metadata"]["name"]) in _UNINTERESTING:
                    continue
                text = object_text(value)
                if length + len(text) > limit:
                    omitted += 1
                    continue
                length += len(text)
                texts.append(text)
        return texts + ([f"-- {omitted} further objects are left out"] if omitted else [])

    async def _list(self, resource: Resource, namespace: str) -> tuple[list[Object], int]:
        try:
            return await self._objects.list_first(resource, namespace, _MAX_OBJECTS)
        except (errors.ApiError, ConnectionFailed):
            return [], 0

    async def _events(self, namespace: str) -> list[str]:
        try:
            events = await self._objects.list(await self._objects.resource_named("events"), namespace)
        except (errors.ApiError, ConnectionFailed, ValueError):
            return []
        return event_lines(events, _MAX_EVENTS)

    def _records(self, namespace: str) -> list[str]:
        if self._recorder is None:
            return []
        records = [
            record
            for record in self._recorder.records_since()
            if record.subject.split("/")[1:2] == [namespace] and not record.subject.startswith("events")
        ]
        return [_record_line(record) for record in records[-_MAX_RECORDS:]]


def object_text(value: Object) -> str:
    """Return an object as YAML of a bounded length, without fields that only machines read, and with masked secrets."""
    text = yaml.encode(mask_object(value)).decode().rstrip()
    return text if len(text) <= _OBJECT_LIMIT else f"{text[:_OBJECT_LIMIT].rstrip()}\n..."


def mask_object(value: Object) -> Object:
    """Return the object without managed fields, and without the content of a Secret."""
    metadata = {key: part for key, part in value["metadata"].items() if key != "managedFields"}
    if value.get("kind") != "Secret":
        return {**value, "metadata": metadata}
    annotations = dict(metadata.get("annotations") or {})
    if _LAST_APPLIED in annotations:
        metadata["annotations"] = annotations | {_LAST_APPLIED: MASK}
    masked_value = {**value, "metadata": metadata}
    for key in ("data", "stringData"):
        if key in value:
            masked_value[key] = dict.fromkeys(value[key] or {}, MASK)
    return masked_value


def _record_line(record: FlightRecord) -> str:
    who = f" by {record.actor}" if record.actor else ""
    action = f"{record.component} {record.action} {record.subject}{who}"
    return f"{times.format_time(record.time)} {action}: {record.outcome}"
