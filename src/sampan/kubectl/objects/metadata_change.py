"""Code that `kubectl label` and `kubectl annotate` share: their flags, the selection of objects, and the patch of the
metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.shared_options import (
    Decorator,
    all_namespaces_option,
    combine_options,
    dry_run_option,
    field_manager_option,
    field_selector_option,
    filename_flags,
    filename_options,
    output_options,
    selector_option,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError
from sampan.kubectl.objects.object_writer import MERGE, ObjectWriter, record_option, with_change_cause
from sampan.kubectl.objects.pod_template import check_local
from sampan.kubectl.objects.targets import ResourceInfo


def metadata_options(what: str, field_manager: str) -> Decorator:
    """Return a decorator that adds the flags of `kubectl label` and `kubectl annotate`. `what` is label or
    annotation."""
    return combine_options(
        click.argument("words", nargs=-1),
        record_option(),
        output_options(),
        click.option("--overwrite", is_flag=True, help=f"Allow changes of existing {what}s."),
        click.option("--list", "lists", is_flag=True, help=f"Show the {what}s of the objects."),
        click.option("--local", is_flag=True, help="Change the content of the file, not the object on the server."),
        field_selector_option(),
        click.option("--all", "selects_all", is_flag=True, help="Select all objects of the types in the namespace."),
        all_namespaces_option(),
        click.option(
            "--resource-version", default="", metavar="VERSION", help="Only change the object at this version."
        ),
        filename_options("to change"),
        dry_run_option(),
        field_manager_option(field_manager),
        selector_option(),
    )


def check_selection(resources: Sequence[str], options: Mapping[str, Any], dry_run: str, *, example: str) -> None:
    """Raise KubectlError if flags contradict each other, or if nothing is selected. `example` is a file name for the
    error messages."""
    if options["lists"] and options["output"]:
        raise KubectlError("--list and --output may not be specified together")
    for name in ("selector", "field_selector"):
        if options["selects_all"] and options[name]:
            raise KubectlError(f"cannot set --all and --{name.replace('_', '-')} at the same time")
    files = filename_flags(options)
    if not options["local"]:
        if not (resources or files):
            raise KubectlError("one or more resources must be specified as <resource> <name> or <resource>/<name>")
        return
    check_local(options, dry_run)
    examples = f"-f {example}.yaml or --filename={example}.json"
    if resources:
        raise KubectlError(f"can only use local files by {examples} when --local=true is set")
    if not files:
        raise KubectlError(f"one or more files must be specified as {examples}")


def select_infos(
    factory: Factory, resources: Sequence[str], options: Mapping[str, Any], errors: ErrorAggregate
) -> tuple[Iterator[ResourceInfo], bool]:
    """Return the selected objects, and whether the command line selects exactly one object by name."""
    is_local = options["local"]
    builder = factory.resources(
        words=() if is_local else resources,
        files=filename_flags(options),
        selector="" if is_local else options["selector"],
        field_selector="" if is_local else options["field_selector"],
        all_namespaces=options["all_namespaces"],
        allows_all=options["selects_all"],
        is_local=is_local,
        fetches_latest=not is_local,
    )
    is_single = builder.is_single_item
    if options["resource_version"] and not is_single:
        raise KubectlError("--resource-version may only be used with a single resource")
    return builder.infos(errors), is_single


def replace_entries(
    value: dict[str, Any], field: str, entries: Mapping[str, str], resource_version: str
) -> dict[str, Any]:
    """Return a copy of the object with `entries` as its labels or annotations (`field`), and with the resource version
    if one is given."""
    metadata = {key: part for key, part in value["metadata"].items() if key != field}
    metadata |= {field: dict(entries)} if entries else {}
    metadata |= {"resourceVersion": resource_version} if resource_version else {}
    return {**value, "metadata": metadata}


def send_change(
    writer: ObjectWriter, info: ResourceInfo, after: dict[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Send the difference between the object and its changed value as a merge patch."""
    from sampan.machinery import patch

    before = info.value
    if options["resource_version"]:
        kept = {key: part for key, part in before["metadata"].items() if key != "resourceVersion"}
        before = {**before, "metadata": kept}
    return writer.patch(info, patch.merge_diff(before, with_change_cause(after, options)), MERGE)


def print_entries(info: ResourceInfo, value: dict[str, Any], field: str, *, is_single: bool) -> None:
    """Print labels or annotations, one per line, below the object's name if there may be several objects."""
    if not is_single:
        kind = f"{info.kind.kind}.{info.kind.group}/{info.name}"
        click.echo(f"Listing {field} for {kind}:")
    for key, text in (value["metadata"].get(field) or {}).items():
        click.echo(f"{'' if is_single else ' '}{key}={text}")
