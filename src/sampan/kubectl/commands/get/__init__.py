"""`kubectl get`: list objects in tables or in other formats, and watch them."""

from __future__ import annotations

from itertools import groupby

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.commands.get.get_options import GetOptions, as_table
from sampan.kubectl.errors import ErrorAggregate, FoundErrors, KubectlError, UsageError
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceInfo

_SUGGESTION = 'Use "kubectl api-resources" for a complete list of supported resources.'
_NO_TYPE = """\
Required resource not specified.
Use "kubectl explain <resource>" for a detailed description of that resource (e.g. kubectl explain pods)."""


@KubectlCommand.define("get", GetOptions)
def command(factory: Factory, options: GetOptions) -> None:
    """List objects."""
    _check(options)
    if options.raw:
        click.echo(factory.session.read(options.raw), nl=False)
        return
    if options.is_watch:
        from sampan.kubectl.commands.get.watch import watch

        watch(factory, options)
        return
    builder = options.resources(factory)
    if options.is_table:
        _print_tables(factory, builder, options)
    else:
        _print_objects(builder, options)


def _check(options: GetOptions) -> None:
    if options.raw:
        _check_raw(options)
        return
    if options.sort_by and options.is_watch:
        text = (
            "--watch requested, --sort-by will be ignored for watch events received"
            if options.watch
            else "--watch-only requested, --sort-by will be ignored"
        )
        click.echo(f"warning: {text}", err=True)
    if not (options.words or options.files or options.is_watch):
        click.echo(f"You must specify the type of resource to get. {_SUGGESTION}\n", err=True)
        raise UsageError(_NO_TYPE)
    if options.show_labels and options.output.format not in ("", "wide"):
        raise KubectlError(f"--show-labels option cannot be used with {options.output.format} printer")
    if options.label_columns and options.output.format.startswith("custom-columns"):
        raise KubectlError(f"--label-columns option cannot be used with {options.output.format} printer")
    if options.output_watch_events and not options.is_watch:
        raise KubectlError("--output-watch-events option can only be used with --watch or --watch-only")


def _check_raw(options: GetOptions) -> None:
    if options.words:
        raise KubectlError("arguments may not be passed when --raw is specified")
    if options.is_watch or options.selector:
        raise KubectlError(
            "--raw may not be specified with other flags that filter the server request or alter the output"
        )
    if options.output.format:
        raise KubectlError("--raw and --output are mutually exclusive")
    if not options.raw.startswith("/"):
        from sampan.kubectl.command_line.flag_parser import quote_text

        raise KubectlError(f"--raw must be a valid URL path: parse {quote_text(options.raw)}: invalid URI for request")


def _print_objects(builder: ResourceBuilder, options: GetOptions) -> None:
    errors = _errors(options)
    objects = [info.value for info in builder.infos(errors)]
    is_single = builder.is_single_item
    if errors and is_single:
        errors.raise_any()
    if not objects and options.ignore_not_found:
        errors.raise_any()
        return
    printer = options.object_printer()
    if is_single and len(objects) == 1:
        value = objects[0]
    else:
        if options.sort_by and objects:
            from sampan.kubectl.printers.sorter import sort_by_field

            objects = sort_by_field(objects, options.sort_by, lambda obj: obj)
        value = {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}}
    with errors.collect():
        printer.print(value)
    errors.raise_any()


def _errors(options: GetOptions) -> ErrorAggregate:
    return FoundErrors() if options.ignore_not_found else ErrorAggregate()


def _print_tables(factory: Factory, builder: ResourceBuilder, options: GetOptions) -> None:
    errors = _errors(options)
    infos = list(builder.infos(errors))
    if options.sort_by:
        infos = _sort_infos(infos, options.sort_by)
    has_kinds = options.show_kind or len({info.kind for info in infos}) > 1
    has_output = False
    for _, group in groupby(infos, key=lambda info: (info.kind.group, info.kind.plural)):
        of_type = list(group)
        printer = options.table_printer(of_type[0].kind, has_kind=has_kinds)
        lines = printer.lines(as_table(info.value) for info in of_type)
        if lines and has_output and not options.no_headers:
            click.echo()
        has_output |= bool(lines)
        click.echo("".join(f"{line}\n" for line in lines), nl=False)
    if not (has_output or errors or options.ignore_not_found):
        is_namespaced = not options.all_namespaces and all(info.kind.is_namespaced for info in infos)
        scope = f" in {factory.namespace} namespace." if is_namespaced else ""
        click.echo(f"No resources found{scope}", err=True)
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
