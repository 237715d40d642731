"""`kubectl label`: change the labels of objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click

from sampan.api import names
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.command_line.flags import bool_flag
from sampan.kubectl.command_line.pairs import split_pairs
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
from sampan.kubectl.objects.object_writer import ObjectWriter
from sampan.kubectl.printers.results import ResultPrinter


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOptions(MetadataOptions):
    overwrite: bool = bool_flag("--overwrite", help="Allow changes of existing labels.")
    lists: bool = bool_flag("--list", help="Show the labels of the objects.")
    field_manager: str = field_manager_flag("kubectl-label")


@KubectlCommand.define("label", LabelOptions)
def command(factory: Factory, options: LabelOptions) -> None:
    """Change the labels of objects."""
    dry_run = dry_run_strategy(options.dry_run)
    resources, pairs = split_pairs(options.words, "label")
    added, removed = parse_labels(pairs)
    check_selection(resources, options, dry_run, example="pod")
    if not (added or removed or options.lists):
        raise KubectlError("at least one label update is required")
    printer = ResultPrinter(options.output, dry_run)
    errors = ErrorAggregate()
    infos, is_single = select_infos(factory, resources, options, errors)
    is_local = dry_run == "client" or options.local or options.lists
    for info in infos:
        with errors.collect():
            current = info.value["metadata"].get("labels") or {}
            if not is_local:
                for key in removed:
                    if key not in current:
                        click.echo(f"label {quote_text(key)} not found.")
            operation, labels = change_labels(current, added, removed, overwrite=options.overwrite)
            value = replace_entries(info.value, "labels", labels, options.resource_version)
            if not is_local and operation != "not labeled":
                writer = ObjectWriter(session=factory.session, field_manager=options.field_manager, dry_run=dry_run)
                send_change(writer, info, value, options)
            if options.lists:
                print_entries(info, value, "labels", is_single=is_single)
            else:
                printer.print(value, operation)
    errors.raise_any()


def parse_labels(pairs: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Parse KEY=VALUE and KEY-. Raise KubectlError for a value that is not valid."""
    added: dict[str, str] = {}
    removed: list[str] = []
    for pair in pairs:
        if "=" not in pair:
            removed.append(pair[:-1])
            continue
        if pair.count("=") != 1:
            raise KubectlError(f"invalid label spec: {pair}")
        key, _, value = pair.partition("=")
        if errors := names.label_value(value):
            raise KubectlError(f"invalid label value: {quote_text(pair)}: {';'.join(errors)}")
        added[key] = value
    if any(key in added for key in removed):
        raise KubectlError("can not both modify and remove a label in the same command")
    return added, removed


def change_labels(
    current: dict[str, str], added: dict[str, str], removed: Sequence[str], *, overwrite: bool
) -> tuple[str, dict[str, str]]:
    """Return the operation that kubectl reports (such as labeled or unlabeled), and the labels after the change."""
    if not overwrite:
        clashes = [
            f"'{key}' already has a value ({current[key]}), and --overwrite is false"
            for key, value in added.items()
            if key in current and current[key] != value
        ]
        if clashes:
            raise KubectlError(clashes[0] if len(clashes) == 1 else f"[{', '.join(clashes)}]")
    is_added = any(current.get(key) != value for key, value in added.items())
    is_removed = any(key in current for key in removed)
    labels = {key: value for key, value in {**current, **added}.items() if key not in removed}
    operations = {(True, True): "modified", (True, False): "labeled", (False, True): "unlabeled"}
    return operations.get((is_added, is_removed), "not labeled"), labels
