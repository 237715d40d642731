"""`kubectl annotate`: change the annotations of objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import bool_flag
from sampan.kubectl.command_line.pairs import parse_pairs, split_pairs
from sampan.kubectl.command_line.shared_flags import dry_run_strategy, field_manager_flag
from sampan.kubectl.commands.metadata_change import (
    MetadataOptions,
    check_selection,
    print_entries,
    replace_entries,
    select_infos,
    send_change,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError
from sampan.kubectl.objects.object_writer import CHANGE_CAUSE, ObjectWriter
from sampan.kubectl.printers.results import ResultPrinter


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotateOptions(MetadataOptions):
    overwrite: bool = bool_flag("--overwrite", help="Allow changes of existing annotations.")
    lists: bool = bool_flag("--list", help="Show the annotations of the objects.")
    field_manager: str = field_manager_flag("kubectl-annotate")


@KubectlCommand.define("annotate", AnnotateOptions)
def command(factory: Factory, options: AnnotateOptions) -> None:
    """Change the annotations of objects."""
    dry_run = dry_run_strategy(options.dry_run)
    printer = ResultPrinter(options.output, dry_run)
    resources, pairs = split_pairs(options.words, "annotation")
    added, removed = parse_pairs(pairs, "annotation", allows_removal=True)
    if options.lists and options.output:
        raise KubectlError("--list and --output may not be specified together")
    check_selection(resources, options, dry_run, example="rsrc")
    _check_change(added, removed, options)
    errors = ErrorAggregate()
    infos, is_single = select_infos(factory, resources, options, errors)
    is_local = dry_run == "client" or options.local or options.lists
    for info in infos:
        with errors.collect():
            current = info.value["metadata"].get("annotations") or {}
            annotations = change_annotations(current, added, removed, overwrite=options.overwrite)
            value = replace_entries(info.value, "annotations", annotations, options.resource_version)
            if not is_local:
                writer = ObjectWriter(session=factory.session, field_manager=options.field_manager, dry_run=dry_run)
                value = send_change(writer, info, value, options)
            if options.lists:
                print_entries(info, value, "annotations", is_single=is_single)
            else:
                printer.print(value, "annotated")
    errors.raise_any()


def _check_change(added: Mapping[str, str], removed: Sequence[str], options: AnnotateOptions) -> None:
    if not (added or removed or options.lists):
        raise KubectlError("at least one annotation update is required")
    if both := [key for key in removed if key in added]:
        keys = ", ".join(both)
        raise KubectlError(f"can not both modify and remove the following annotation(s) in the same command: {keys}")


def change_annotations(
    current: dict[str, str], added: dict[str, str], removed: Sequence[str], *, overwrite: bool
) -> dict[str, str]:
    """Return the annotations after the change. The change cause may always be overwritten."""
    clashes = [
        f"'{key}' already has a value ({current[key]})"
        for key, value in added.items()
        if key != CHANGE_CAUSE and key in current and current[key] != value
    ]
    if clashes and not overwrite:
        raise KubectlError(f"--overwrite is false but found the following declared annotation(s): {'; '.join(clashes)}")
    return {key: value for key, value in {**current, **added}.items() if key not in removed}
