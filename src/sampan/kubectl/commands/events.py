"""`kubectl events`: list events, oldest first, and watch them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import bool_flag, string_flag, string_slice_flag
from sampan.kubectl.command_line.shared_flags import all_namespaces_flag, chunk_size_flag
from sampan.kubectl.errors import KubectlError, PlainError
from sampan.kubectl.objects.targets import list_pages
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.objects import NamePrinter
from sampan.kubectl.printers.table import escape_terminal_codes, table_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsOptions:
    output: OutputOptions = output_flags()
    watch: bool = bool_flag("-w", "--watch", help="Watch for more events after listing them.")
    all_namespaces: bool = all_namespaces_flag()
    object_name: str = string_flag("--for", metavar="TYPE/NAME", help="Show only events of this object.")
    types: tuple[str, ...] = string_slice_flag("--types", metavar="TYPE,…", help="Types to show: Normal, Warning.")
    no_headers: bool = bool_flag("--no-headers", help="Print the table without the header line.")
    chunk_size: int = chunk_size_flag()


@KubectlCommand.define("events", EventsOptions)
def command(factory: Factory, options: EventsOptions) -> None:
    """List events, oldest first."""
    query = _selector(factory, options.object_name)
    types = {name.lower() for name in options.types}
    if types - {"normal", "warning"}:
        raise KubectlError("valid --types are Normal or Warning")
    output = EventOutput(options)
    kind = factory.kinds.find_by_kind("v1", "Event")
    namespace = "" if options.all_namespaces else factory.namespace
    if options.watch:
        for change in factory.session.lines(kind.collection(namespace), query | {"watch": "true"}):
            event = {"apiVersion": "v1", "kind": "Event", **(change.get("object") or {})}
            if change.get("type") in ("ADDED", "MODIFIED") and _has_type(event, types):
                output.print([event], is_list=False)
        return
    pages = list_pages(factory.session, kind, namespace, query | {"limit": "500"})
    title = {"kind": "Event", "apiVersion": "v1"}
    events = [
        {**title, **item, "metadata": _order_metadata(item["metadata"])}
        for page in pages
        for item in page.get("items") or ()
        if _has_type(item, types)
    ]
    if not events:
        scope = "" if options.all_namespaces else f" in {factory.namespace} namespace"
        click.echo(f"No events found{scope}.", err=True)
        return
    output.print(sorted(events, key=_last_time), is_list=True)


def _selector(factory: Factory, object_name: str) -> dict[str, str]:
    if not object_name:
        return {}
    parts = object_name.split("/")
    if len(parts) == 1:
        raise KubectlError("--for must be in resource/name form")
    if len(parts) > 2:
        raise KubectlError("arguments in resource/name form may not have more than one slash")
    try:
        kind = factory.kinds.find_by_name(parts[0])
    except KubectlError as error:
        raise PlainError(error.message) from None
    terms = {"kind": kind.kind, "apiVersion": kind.api_version, "name": parts[1]}
    return {"fieldSelector": ",".join(f"involvedObject.{field}={value}" for field, value in terms.items() if value)}


def _order_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata in the order of its declaration, in which kubectl prints it."""
    first = {key: metadata[key] for key in ("name", "generateName", "namespace", "uid") if key in metadata}
    return first | metadata


def _has_type(event: Mapping[str, Any], types: set[str]) -> bool:
    return not types or str(event.get("type", "")).lower() in types


def _last_time(event: Mapping[str, Any]) -> str:
    """Return the time of the event's last occurrence as text of a fixed form, so that texts sort like times."""
    text = (event.get("series") or {}).get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    seconds, _, fraction = str(text or "").rstrip("Z").partition(".")
    return f"{seconds}.{fraction:0<9}"


class EventOutput:
    def __init__(self, options: EventsOptions) -> None:
        self._printer = options.output.printer(is_sorted=False) if options.output.format else None
        self._has_headers, self._has_namespace = not options.no_headers, bool(options.all_namespaces)
        self._widths: list[int] = []

    def print(self, events: list[dict[str, Any]], *, is_list: bool) -> None:
        if self._printer is not None:
            metadata: dict[str, Any] = {}
            items = {"kind": "EventList", "apiVersion": "v1", "metadata": metadata, "items": events}
            if not (is_list and isinstance(self._printer, NamePrinter)):
                # kubectl prints nothing for a list of events with -o name
                self._printer.print(items if is_list else events[0])
            return
        header = ["NAMESPACE"] * self._has_namespace + ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
        rows = [header] if self._has_headers else []
        self._has_headers = False
        for line in table_lines([*rows, *map(self._row, events)], self._widths):
            click.echo(line)

    def _row(self, event: Mapping[str, Any]) -> list[str]:
        target = event.get("involvedObject") or {}
        namespace = [str((event.get("metadata") or {}).get("namespace", ""))] * self._has_namespace
        subject = f"{target.get('kind', '')}/{target.get('name', '')}"
        cells = [event.get("type", ""), event.get("reason", ""), subject, str(event.get("message", "")).strip()]
        return [*namespace, _interval(event), *map(escape_terminal_codes, cells)]


def _interval(event: Mapping[str, Any]) -> str:
    first = _age(event.get("eventTime") or event.get("firstTimestamp"))
    if series := event.get("series"):
        return f"{_age(series.get('lastObservedTime'))} (x{series.get('count', 0)} over {first})"
    if event.get("count", 0) > 1:
        return f"{_age(event.get('lastTimestamp'))} (x{event['count']} over {first})"
    return first


def _age(text: str | None) -> str:
    from sampan.api.values.ages import age

    return age(text, time.time()) if text else "<unknown>"
