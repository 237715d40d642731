"""The flags of `kubectl get`: which objects they select, and how they are printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.resource_type import ResourceType
from sampan.kubectl.client.session import JSON
from sampan.kubectl.command_line.flags import arguments, bool_flag, string_flag, string_slice_flag
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    all_namespaces_flag,
    chunk_size_flag,
    field_selector_flag,
    filename_flags,
    selector_flag,
    subresource_flag,
)
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceFetch, ResourceSelection, ResourceSource
from sampan.kubectl.printers import GET_FORMATS, OutputOptions, Printer, output_flags
from sampan.kubectl.printers.table import TablePrinter

TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOptions:
    words: tuple[str, ...] = arguments()
    output: OutputOptions = output_flags(formats=GET_FORMATS)
    selector: str = selector_flag()
    field_selector: str = field_selector_flag()
    all_namespaces: bool = all_namespaces_flag()
    files: FilenameOptions = filename_flags("to get")
    watch: bool = bool_flag("-w", "--watch", help="Watch for changes after listing the objects.")
    watch_only: bool = bool_flag("--watch-only", help="Watch for changes without listing the objects first.")
    output_watch_events: bool = bool_flag("--output-watch-events", help="Print the type of each event of a watch.")
    no_headers: bool = bool_flag("--no-headers", help="Print the table without the header line.")
    show_labels: bool = bool_flag("--show-labels", help="Add a column with all labels.")
    show_kind: bool = bool_flag("--show-kind", help="Print the resource type before each name.")
    label_columns: tuple[str, ...] = string_slice_flag(
        "-L", "--label-columns", metavar="LABEL,…", help="Labels to show as columns."
    )
    sort_by: str = string_flag("--sort-by", metavar="PATH", help="Field to sort by, as a JSONPath expression.")
    server_print: bool = bool_flag(
        "--server-print", default=True, help="Let the server choose the columns. True by default."
    )
    ignore_not_found: bool = bool_flag("--ignore-not-found", help="Treat an object that does not exist as success.")
    raw: str = string_flag(
        "--raw", metavar="PATH", help="Path to request from the server; the response is printed as is."
    )
    chunk_size: int = chunk_size_flag()
    subresource: str = subresource_flag("Subresource of the objects to get.")

    @property
    def is_watch(self) -> bool:
        return self.watch or self.watch_only

    @property
    def is_table(self) -> bool:
        return self.output.format == "wide" or not self.output

    @property
    def query(self) -> dict[str, str]:
        """The query for Tables with the objects that are needed beside the cells; empty for other responses."""
        if not self._uses_tables:
            return {}
        return {"includeObject": "Object" if self.sort_by else "Metadata"}

    @property
    def accept(self) -> str:
        """The media type of the response: a Table where the server prints the columns."""
        return TABLE if self._uses_tables else JSON

    @property
    def _uses_tables(self) -> bool:
        return self.is_table and self.server_print

    def resources(self, factory: Factory, *, is_single_type: bool = False, flattens: bool = True) -> ResourceBuilder:
        """Return the resources of the command line."""
        return ResourceBuilder(
            factory,
            ResourceSelection(
                words=self.words,
                selector=self.selector,
                field_selector=self.field_selector,
                all_namespaces=self.all_namespaces,
                allows_all=True,
                is_single_type=is_single_type,
                subresource=self.subresource,
            ),
            ResourceSource(files=self.files, requires_namespace=factory.has_namespace_flag and not self.all_namespaces),
            ResourceFetch(
                chunk_size=0 if self.sort_by else self.chunk_size,
                fetches_latest=True,
                flattens=flattens,
                query=self.query,
                accept=self.accept,
            ),
        )

    def object_printer(self) -> Printer:
        return self.output.printer(formats=GET_FORMATS, has_headers=not self.no_headers)

    def table_printer(self, kind: ResourceType, *, has_kind: bool) -> TablePrinter:
        return TablePrinter(
            kind_prefix=kind.qualified if has_kind else "",
            has_namespace=self.all_namespaces and kind.is_namespaced,
            is_wide=self.output.format == "wide",
            has_headers=not self.no_headers,
            has_labels=self.show_labels,
            label_columns=self.label_columns,
        )


def as_table(value: dict[str, Any]) -> dict[str, Any]:
    """Return a Table as it is, and any other object as a Table with its name and age."""
    if value.get("kind") == "Table":
        return value
    import time

    from sampan.api.values.ages import age

    metadata = value.get("metadata") or {}
    created = metadata.get("creationTimestamp")
    columns = [{"name": "Name", "type": "string", "format": "name"}, {"name": "Age", "type": "string"}]
    cells = [metadata.get("name", ""), age(created, time.time()) if created else "<unknown>"]
    return {"kind": "Table", "columnDefinitions": columns, "rows": [{"cells": cells, "object": value}]}
