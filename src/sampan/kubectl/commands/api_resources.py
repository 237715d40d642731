"""`kubectl api-resources`: the resource types that the server serves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.resource_type import ResourceType
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, changed_flags, string_flag, string_slice_flag
from sampan.kubectl.errors import KubectlError, UsageError
from sampan.kubectl.printers import printer_for, unknown_format
from sampan.kubectl.printers.table import print_table

_FORMATS = ("json", "yaml", "kyaml", "wide", "name")
_COLUMNS = ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResourcesOptions:
    words: tuple[str, ...] = arguments()
    output: str = string_flag("-o", "--output", metavar="FORMAT", help=f"Output format: {', '.join(_FORMATS)}.")
    show_managed_fields: bool = bool_flag("--show-managed-fields", help="Keep managedFields in JSON and YAML output.")
    no_headers: bool = bool_flag("--no-headers", help="Print the table without the header line.")
    api_group: str = string_flag("--api-group", metavar="GROUP", help="Show only resource types of this API group.")
    namespaced: bool = bool_flag("--namespaced", default=True, help="Show only types that have a namespace, or not.")
    verbs: tuple[str, ...] = string_slice_flag("--verbs", metavar="VERB,…", help="Show only types with these verbs.")
    categories: tuple[str, ...] = string_slice_flag(
        "--categories", metavar="NAME,…", help="Show only types of these categories."
    )
    sort_by: str = string_flag("--sort-by", metavar="FIELD", help="Sort by name or kind instead of by group.")
    cached: bool = bool_flag("--cached", help="Use the list of an earlier command if it is cached.")
    changed_flags: frozenset[str] = changed_flags()


@KubectlCommand.define("api-resources", ApiResourcesOptions)
def command(factory: Factory, options: ApiResourcesOptions) -> None:
    """Print the resource types of the server."""
    if options.words:
        raise UsageError(f"unexpected arguments: [{' '.join(options.words)}]")
    if options.output not in ("", *_FORMATS):
        raise unknown_format(options.output, _FORMATS)
    if options.sort_by not in ("", "name", "kind"):
        raise KubectlError("--sort-by accepts only name or kind")
    if not options.cached:
        factory.kinds.discover()
    types = [kind for kind in factory.kinds.list_preferred() if _is_selected(kind, options)]
    field = {"name": "plural", "kind": "kind", "": "group"}[options.sort_by]
    types.sort(key=lambda kind: (str(getattr(kind, field)), kind.plural))
    _print(types, options)
    failed = factory.kinds.failed_groups
    if failed:
        reasons = ", ".join(f"{group}: {reason}" for group, reason in sorted(failed.items()))
        raise KubectlError(f"unable to retrieve the complete list of server APIs: {reasons}")


def _is_selected(kind: ResourceType, options: ApiResourcesOptions) -> bool:
    return (
        bool(kind.verbs)
        and ("api-group" not in options.changed_flags or kind.group == options.api_group)
        and ("namespaced" not in options.changed_flags or kind.is_namespaced == options.namespaced)
        and set(options.verbs) <= set(kind.verbs)
        and set(options.categories) <= set(kind.categories)
    )


def _print(types: list[ResourceType], options: ApiResourcesOptions) -> None:
    output = options.output
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
    table = [] if options.no_headers else [_COLUMNS + (["VERBS", "CATEGORIES"] if is_wide else [])]
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
