"""Code that `kubectl label` and `kubectl annotate` share: their flags, the selection of objects, and the patch of the
metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.flags import arguments, bool_flag, string_flag
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    all_flag,
    all_namespaces_flag,
    check_all_and_selectors,
    check_local,
    dry_run_flag,
    field_manager_flag,
    field_selector_flag,
    filename_flags,
    local_flag,
    record_flag,
    selector_flag,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError
from sampan.kubectl.objects.object_writer import MERGE, ObjectWriter, with_change_cause
from sampan.kubectl.objects.targets import (
    ResourceBuilder,
    ResourceFetch,
    ResourceInfo,
    ResourceSelection,
    ResourceSource,
)
from sampan.kubectl.printers import OutputOptions, output_flags


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataOptions:
    """The flags of `kubectl label` and `kubectl annotate`. Each command declares those that name its entries."""

    words: tuple[str, ...] = arguments()
    record: bool = record_flag()
    output: OutputOptions = output_flags()
    overwrite: bool = bool_flag("--overwrite", help="Allow changes of existing entries.")
    lists: bool = bool_flag("--list", help="Show the entries of the objects.")
    local: bool = local_flag()
    field_selector: str = field_selector_flag()
    selects_all: bool = all_flag()
    all_namespaces: bool = all_namespaces_flag()
    resource_version: str = string_flag(
        "--resource-version", metavar="VERSION", help="Only change the object at this version."
    )
    files: FilenameOptions = filename_flags("to change")
    dry_run: str = dry_run_flag()
    field_manager: str = field_manager_flag("")
    selector: str = selector_flag()


def check_selection(resources: Sequence[str], options: MetadataOptions, dry_run: str, *, example: str) -> None:
    """Raise KubectlError if flags contradict each other, or if nothing is selected. `example` is a file name for the
    error messages."""
    if options.lists and options.output.format:
        raise KubectlError("--list and --output may not be specified together")
    check_all_and_selectors(options.selects_all, options.selector, options.field_selector)
    files = options.files
    if not options.local:
        if not (resources or files):
            raise KubectlError("one or more resources must be specified as <resource> <name> or <resource>/<name>")
        return
    check_local(options.local, dry_run)
    examples = f"-f {example}.yaml or --filename={example}.json"
    if resources:
        raise KubectlError(f"can only use local files by {examples} when --local=true is set")
    if not files:
        raise KubectlError(f"one or more files must be specified as {examples}")


def select_infos(
    factory: Factory, resources: Sequence[str], options: MetadataOptions, errors: ErrorAggregate
) -> tuple[Iterator[ResourceInfo], bool]:
    """Return the selected objects, and whether the command line selects exactly one object by name."""
    is_local = options.local
    builder = ResourceBuilder(
        factory,
        ResourceSelection(
            words=() if is_local else resources,
            selector="" if is_local else options.selector,
            field_selector="" if is_local else options.field_selector,
            all_namespaces=options.all_namespaces,
            allows_all=options.selects_all,
        ),
        ResourceSource(files=options.files, is_local=is_local),
        ResourceFetch(fetches_latest=not is_local),
    )
    is_single = builder.is_single_item
    if options.resource_version and not is_single:
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
    writer: ObjectWriter, info: ResourceInfo, after: dict[str, Any], options: MetadataOptions
) -> dict[str, Any]:
    """Send the difference between the object and its changed value as a merge patch."""
    from sampan.machinery import patch

    before = info.value
    if options.resource_version:
        metadata = {key: part for key, part in before["metadata"].items() if key != "resourceVersion"}
        before = {**before, "metadata": metadata}
    return writer.patch(info, patch.merge_diff(before, with_change_cause(after, options.record)), MERGE)


def print_entries(info: ResourceInfo, value: dict[str, Any], field: str, *, is_single: bool) -> None:
    """Print labels or annotations, one per line, below the object's name if there may be several objects."""
    if not is_single:
        kind = f"{info.kind.kind}.{info.kind.group}/{info.name}"
        click.echo(f"Listing {field} for {kind}:")
    for key, text in (value["metadata"].get(field) or {}).items():
        click.echo(f"{'' if is_single else ' '}{key}={text}")
