"""`kubectl get`: list objects in tables or in other formats, and watch them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.resource_type import ResourceType
from sampan.kubectl.client.session import JSON
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.flag_parser import STRING_SLICE
from sampan.kubectl.command_line.shared_options import (
    all_namespaces_option,
    chunk_size_option,
    field_selector_option,
    filename_flags,
    filename_options,
    output_options,
    selector_option,
    subresource_option,
)
from sampan.kubectl.errors import ErrorAggregate, FoundErrors, KubectlError, UsageError
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceInfo
from sampan.kubectl.printers import GET_FORMATS, Printer, printer_for
from sampan.kubectl.printers.table import TablePrinter

TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
_SUGGESTION = 'Use "kubectl api-resources" for a complete list of supported resources.'
_NO_TYPE = """\
Required resource not specified.
Use "kubectl explain <resource>" for a detailed description of that resource (e.g. kubectl explain pods)."""


@click.command("get", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@output_options(formats=GET_FORMATS)
@selector_option()
@field_selector_option()
@all_namespaces_option()
@filename_options("to get")
@click.option("-w", "--watch", is_flag=True, help="Watch for changes after listing the objects.")
@click.option("--watch-only", is_flag=True, help="Watch for changes without listing the objects first.")
@click.option("--output-watch-events", is_flag=True, help="Print the type of each event of a watch.")
@click.option("--no-headers", is_flag=True, help="Print the table without the header line.")
@click.option("--show-labels", is_flag=True, help="Add a column with all labels.")
@click.option("--show-kind", is_flag=True, help="Print the resource type before each name.")
@click.option(
    "-L", "--label-columns", multiple=True, type=STRING_SLICE, metavar="LABEL,…", help="Labels to show as columns."
)
@click.option("--sort-by", default="", metavar="PATH", help="Field to sort by, as a JSONPath expression.")
@click.option("--server-print", is_flag=True, default=True, help="Let the server choose the columns. True by default.")
@click.option("--ignore-not-found", is_flag=True, help="Treat an object that does not exist as success.")
@click.option(
    "--raw", default="", metavar="PATH", help="Path to request from the server; the response is printed as is."
)
@chunk_size_option()
@subresource_option("Subresource of the objects to get.")
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """List objects."""
    _check(words, options)
    if options["raw"]:
        click.echo(factory.session.read(options["raw"]), nl=False)
        return
    if options["watch"] or options["watch_only"]:
        from sampan.kubectl.commands.get.watch import watch

        watch(factory, words, options)
        return
    builder = resource_builder(factory, words, options)
    if is_table(options):
        _print_tables(factory, builder, options)
    else:
        _print_objects(builder, options)


def _check(words: Sequence[str], options: Mapping[str, Any]) -> None:
    is_watch = options["watch"] or options["watch_only"]
    if options["raw"]:
        _check_raw(words, options)
        return
    if options["sort_by"] and is_watch:
        text = (
            "--watch requested, --sort-by will be ignored for watch events received"
            if options["watch"]
            else "--watch-only requested, --sort-by will be ignored"
        )
        click.echo(f"warning: {text}", err=True)
    if not (words or options["files"] or options["kustomize"] or is_watch):
        click.echo(f"You must specify the type of resource to get. {_SUGGESTION}\n", err=True)
        raise UsageError(_NO_TYPE)
    if options["show_labels"] and options["output"] not in ("", "wide"):
        raise KubectlError(f"--show-labels option cannot be used with {options['output']} printer")
    if options["output_watch_events"] and not is_watch:
        raise KubectlError("--output-watch-events option can only be used with --watch or --watch-only")


def _check_raw(words: Sequence[str], options: Mapping[str, Any]) -> None:
    if words:
        raise KubectlError("arguments may not be passed when --raw is specified")
    if options["watch"] or options["watch_only"] or options["selector"]:
        raise KubectlError(
            "--raw may not be specified with other flags that filter the server request or alter the output"
        )
    if options["output"]:
        raise KubectlError("--raw and --output are mutually exclusive")
    if not options["raw"].startswith("/"):
        from sampan.kubectl.command_line.flag_parser import quote_text

        raise KubectlError(
            f"--raw must be a valid URL path: parse {quote_text(options['raw'])}: invalid URI for request"
        )


def is_table(options: Mapping[str, Any]) -> bool:
    return options["output"] == "wide" or not (options["output"] or options["template"])


def resource_builder(
    factory: Factory, words: Sequence[str], options: Mapping[str, Any], **selection: Any
) -> ResourceBuilder:
    """Return the resources of the command line, as Tables where the server prints the columns."""
    uses_tables = is_table(options) and options["server_print"]
    query = {"includeObject": "Object" if options["sort_by"] else "Metadata"} if uses_tables else {}
    return factory.resources(
        words=words,
        files=filename_flags(options),
        selector=options["selector"],
        field_selector=options["field_selector"],
        all_namespaces=options["all_namespaces"],
        allows_all=True,
        chunk_size=0 if options["sort_by"] else options["chunk_size"],
        subresource=options["subresource"],
        fetches_latest=True,
        requires_namespace=factory.has_namespace_flag and not options["all_namespaces"],
        query=query,
        accept=TABLE if uses_tables else JSON,
        **selection,
    )


def object_printer(options: Mapping[str, Any]) -> Printer:
    return printer_for(
        options["output"],
        template=options["template"],
        allows_missing_keys=options["allow_missing_template_keys"],
        shows_managed_fields=options["show_managed_fields"],
        has_headers=not options["no_headers"],
        formats=GET_FORMATS,
    )


def _print_objects(builder: ResourceBuilder, options: Mapping[str, Any]) -> None:
    errors = _errors(options)
    objects = [info.value for info in builder.infos(errors)]
    is_single = builder.is_single_item
    if errors and is_single:
        errors.raise_any()
    if not objects and options["ignore_not_found"]:
        errors.raise_any()
        return
    printer = object_printer(options)
    if is_single and len(objects) == 1:
        value = objects[0]
    else:
        if options["sort_by"] and objects:
            from sampan.kubectl.printers.sorter import sort_by_field

            objects = sort_by_field(objects, options["sort_by"], lambda obj: obj)
        value = {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}}
    with errors.collect():
        printer.print(value)
    errors.raise_any()


def _errors(options: Mapping[str, Any]) -> ErrorAggregate:
    return FoundErrors() if options["ignore_not_found"] else ErrorAggregate()


def _print_tables(factory: Factory, builder: ResourceBuilder, options: Mapping[str, Any]) -> None:
    errors = _errors(options)
    infos = list(builder.infos(errors))
    if options["sort_by"]:
        infos = _sort_infos(infos, options["sort_by"])
    has_kinds = options["show_kind"] or len({info.kind for info in infos}) > 1
    has_output = False
    for _, group in groupby(infos, key=lambda info: (info.kind.group, info.kind.plural)):
        of_type = list(group)
        printer = table_printer(of_type[0].kind, options, has_kind=has_kinds)
        lines = printer.lines(as_table(info.value) for info in of_type)
        if lines and has_output and not options["no_headers"]:
            click.echo()
        has_output |= bool(lines)
        click.echo("".join(f"{line}\n" for line in lines), nl=False)
    if not (has_output or errors or options["ignore_not_found"]):
        is_namespaced = not options["all_namespaces"] and all(info.kind.is_namespaced for info in infos)
        where = f" in {factory.namespace} namespace." if is_namespaced else ""
        click.echo(f"No resources found{where}", err=True)
    if builder.has_names:
        errors.raise_any()
    errors.raise_all()


def _sort_infos(infos: list[ResourceInfo], path: str) -> list[ResourceInfo]:
    """Sort by the field at a path: the rows within each Table, or objects that are not Tables as one list."""
    from sampan.kubectl.printers.sorter import sort_by_field

    tables = [info for info in infos if info.value.get("kind") == "Table"]
    for info in tables:
        rows = info.value.get("rows") or []
        if len(rows) < 2:  # kubectl does not evaluate the path for a single row
            continue
        try:
            info.value["rows"] = sort_by_field(rows, path, lambda row: row.get("object"))
        except KubectlError:
            # kubectl ignores errors of its printers for tables, and prints no rows.
            info.value["rows"] = []
    if tables or len(infos) < 2:
        return infos
    return sort_by_field(infos, path, lambda info: info.value)


def table_printer(kind: ResourceType, options: Mapping[str, Any], *, has_kind: bool) -> TablePrinter:
    return TablePrinter(
        kind_prefix=kind.qualified if has_kind else "",
        has_namespace=options["all_namespaces"] and kind.is_namespaced,
        is_wide=options["output"] == "wide",
        has_headers=not options["no_headers"],
        has_labels=options["show_labels"],
        label_columns=options["label_columns"],
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
