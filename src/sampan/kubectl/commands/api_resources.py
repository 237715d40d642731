"""`kubectl api-resources`: the resource types that the server serves."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.resource_type import ResourceType
from sampan.kubectl.command_line.command import CHANGED_FLAGS, KubectlCommand
from sampan.kubectl.command_line.flag_parser import STRING_SLICE
from sampan.kubectl.errors import KubectlError, UsageError
from sampan.kubectl.printers import printer_for, unknown_format
from sampan.kubectl.printers.table import print_table

_FORMATS = ("json", "yaml", "kyaml", "wide", "name")
_COLUMNS = ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]


@click.command("api-resources", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.option("-o", "--output", default="", metavar="FORMAT", help=f"Output format: {', '.join(_FORMATS)}.")
@click.option("--show-managed-fields", is_flag=True, help="Keep managedFields in JSON and YAML output.")
@click.option("--no-headers", is_flag=True, help="Print the table without the header line.")
@click.option("--api-group", default="", metavar="GROUP", help="Show only resource types of this API group.")
@click.option("--namespaced", is_flag=True, default=True, help="Show only types that have a namespace, or not.")
@click.option("--verbs", multiple=True, type=STRING_SLICE, metavar="VERB,…", help="Show only types with these verbs.")
@click.option(
    "--categories", multiple=True, type=STRING_SLICE, metavar="NAME,…", help="Show only types of these categories."
)
@click.option("--sort-by", default="", metavar="FIELD", help="Sort by name or kind instead of by group.")
@click.option("--cached", is_flag=True, help="Use the list of an earlier command if it is cached.")
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], **options: Any) -> None:
    """Print the resource types of the server."""
    if words:
        raise UsageError(f"unexpected arguments: [{' '.join(words)}]")
    if options["output"] not in ("", *_FORMATS):
        raise unknown_format(options["output"], _FORMATS)
    if options["sort_by"] not in ("", "name", "kind"):
        raise KubectlError("--sort-by accepts only name or kind")
    factory: Factory = ctx.obj
    changed = ctx.meta[CHANGED_FLAGS]
    if not options["cached"]:
        factory.kinds.discover()
    types = [kind for kind in factory.kinds.list_preferred() if _is_selected(kind, options, changed)]
    field = {"name": "plural", "kind": "kind", "": "group"}[options["sort_by"]]
    types.sort(key=lambda kind: (str(getattr(kind, field)), kind.plural))
    _print(types, options)
    failed = factory.kinds.failed_groups
    if failed:
        reasons = ", ".join(f"{group}: {reason}" for group, reason in sorted(failed.items()))
        raise KubectlError(f"unable to retrieve the complete list of server APIs: {reasons}")


def _is_selected(kind: ResourceType, options: dict[str, Any], changed: Collection[str]) -> bool:
    return (
        bool(kind.verbs)
        and ("api_group" not in changed or kind.group == options["api_group"])
        and ("namespaced" not in changed or kind.is_namespaced == options["namespaced"])
        and set(options["verbs"]) <= set(kind.verbs)
        and set(options["categories"]) <= set(kind.categories)
    )


def _print(types: list[ResourceType], options: dict[str, Any]) -> None:
    output = options["output"]
    if output in ("json", "yaml", "kyaml"):
        rows = [_object(kind) for kind in types]
        value = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "", "resources": rows}
        printer_for(output, is_sorted=False).print(value)
        return
    if output == "name":
        for kind in types:
            click.echo(kind.group_resource)
        return
    is_wide = output == "wide"
    table = [] if options["no_headers"] else [_COLUMNS + (["VERBS", "CATEGORIES"] if is_wide else [])]
    for kind in types:
        row = [kind.plural, ",".join(kind.short_names), kind.api_version, str(kind.is_namespaced).lower(), kind.kind]
        table.append(row + ([",".join(kind.verbs), ",".join(kind.categories)] if is_wide else []))
    print_table(table)


def _object(kind: ResourceType) -> dict[str, Any]:
    value: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.is_namespaced,
        "group": kind.group,
        "version": kind.version,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
        "shortNames": list(kind.short_names),
        "categories": list(kind.categories),
    }
    return {key: part for key, part in value.items() if part or key in ("singularName", "namespaced")}
