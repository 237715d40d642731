"""The watch of `kubectl get -w`: list the objects, then print each change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.commands.get.get_options import GetOptions, as_table
from sampan.kubectl.errors import KubectlError, ServerError
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.kubectl.printers import Printer
from sampan.kubectl.printers.table import TablePrinter


def watch(factory: Factory, options: GetOptions) -> None:
    """Print the objects and then their changes, until the server or the user ends the watch."""
    builder = options.resources(factory, is_single_type=True, flattens=False)
    try:
        infos = list(builder.infos())
    except ServerError as error:
        if error.is_not_found and options.ignore_not_found:
            return
        raise
    if any(info.kind != infos[0].kind for info in infos) or (infos[0].name and len(infos) > 1):
        raise KubectlError("you may only watch a single resource or type of resource at a time")
    output = WatchOutput(infos[0], options)
    for info in infos:
        output.show_existing(info.value, is_shown=not options.watch_only)
    _follow(factory, infos, options, output)


def _follow(factory: Factory, infos: Sequence[ResourceInfo], options: GetOptions, output: WatchOutput) -> None:
    info = infos[-1]
    is_collection = not info.name
    query = {"watch": "true"}
    if is_collection:
        version = str((info.value.get("metadata") or {}).get("resourceVersion") or "")
        query |= {"labelSelector": options.selector, "fieldSelector": options.field_selector}
    else:
        # Watch a single object from any version; the first event repeats the listed object.
        version = "0"
        query["fieldSelector"] = f"metadata.name={info.name}"
    query["resourceVersion"] = version
    query |= options.query
    query = {key: part for key, part in query.items() if part}
    lines = factory.session.lines(info.collection, query, accept=options.accept)
    skips_first = not is_collection
    for event in lines:
        if event.get("type") == "BOOKMARK":
            continue
        if event.get("type") == "ERROR":
            from sampan.machinery import errors

            raise ServerError(errors.from_status(event.get("object") or {}))
        if not skips_first:
            output.show(event.get("object") or {}, str(event.get("type", "")))
        skips_first = False


class WatchOutput:
    """Prints objects of a watch one after the other, with columns as wide as those printed before."""

    def __init__(self, info: ResourceInfo, options: GetOptions) -> None:
        self._has_events = bool(options.output_watch_events)
        self._table: TablePrinter | None = None
        self._printer: Printer | None = None
        if options.is_table:
            self._table = options.table_printer(info.kind, has_kind=options.show_kind)
        else:
            self._printer = options.object_printer()

    def show_existing(self, value: dict[str, Any], *, is_shown: bool) -> None:
        if not is_shown:
            if self._table is not None and value.get("kind") == "Table":
                self._table.lines([{**value, "rows": []}])
            return
        if isinstance(value.get("items"), list):
            title = {"apiVersion": value.get("apiVersion"), "kind": str(value.get("kind", "")).removesuffix("List")}
            for item in value["items"]:
                self.show({**title, **item}, "ADDED")
        else:
            self.show(value, "ADDED")

    def show(self, value: dict[str, Any], event_type: str) -> None:
        shown_type = event_type if self._has_events else ""
        if self._table is not None:
            for line in self._table.lines([as_table(value)], shown_type):
                click.echo(line)
        elif self._printer is not None:
            self._printer.print({"object": value, "type": event_type} if self._has_events else value)
