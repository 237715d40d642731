"""`kubectl taint`: change the taints of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from sampan.cli.failures import CliError
from sampan.cli.kubectl.command import KubectlCommand
from sampan.cli.kubectl.errors import ErrorAggregate, KubectlError, UsageError
from sampan.cli.kubectl.factory import Factory
from sampan.cli.kubectl.object_writer import STRATEGIC, ObjectWriter, ResultPrinter
from sampan.cli.kubectl.options import (
    dry_run_of,
    dry_run_option,
    field_manager_option,
    output_options,
    selector_option,
    validate_option,
    validation_of,
)
from sampan.cli.kubectl.patch_metadata import strategic_patch
from sampan.cli.kubectl.taints import changed_taints, check_conflicts, parse_taint_changes


@click.command("taint", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@output_options()
@dry_run_option()
@validate_option()
@selector_option()
@click.option("--overwrite", is_flag=True, help="Allow changes of existing taints.")
@click.option("--all", "selects_all", is_flag=True, help="Select all nodes of the cluster.")
@field_manager_option("kubectl-taint")
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Change the taints of nodes."""
    dry_run, validation, printer = dry_run_of(options), validation_of(options), ResultPrinter(options, dry_run="none")
    resources, texts = _split_words(words)
    try:
        added, removed = parse_taint_changes(texts)
    except CliError as error:
        raise UsageError(error.message) from None
    kind = factory.kinds.named(resources[0].lower())
    if kind.kind != "Node":
        raise KubectlError(f"invalid resource type {resources[0].lower()}, only node types are supported")
    check_conflicts(added, removed)
    _check_flags(resources, options)
    is_selection = options["selects_all"] or options["selector"]
    builder = factory.resources(
        words=["node"] if is_selection else ["node", *resources[1:]],
        selector=options["selector"],
        selects_all=options["selects_all"],
    )
    writer = ObjectWriter(
        session=factory.session, field_manager=options["field_manager"], dry_run=dry_run, validation=validation
    )
    errors = ErrorAggregate()
    for info in builder.infos(errors):
        with errors.collect():
            spec = info.value.get("spec") or {}
            operation, taints = changed_taints(
                spec.get("taints") or (), added, removed, overwrite=options["overwrite"], node=info.name
            )
            kept = {key: part for key, part in spec.items() if key != "taints"}
            value = {**info.value, "spec": kept | ({"taints": taints} if taints else {})}
            if dry_run != "client":
                value = writer.patch(info, strategic_patch(info, value), STRATEGIC)
            printer.print(value, operation)
    errors.raise_any()


def _split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    resources: list[str] = []
    taints: list[str] = []
    for word in words:
        if "=" in word or ":" in word or word.endswith("-"):
            taints.append(word)
        elif taints:
            raise KubectlError(f"all resources must be specified before taint changes: {word}")
        else:
            resources.append(word)
    if not resources:
        raise KubectlError("one or more resources must be specified as <resource> <name>")
    if not taints:
        raise KubectlError("at least one taint update is required")
    return resources, taints


def _check_flags(resources: Sequence[str], options: dict[str, Any]) -> None:
    if options["selects_all"] and options["selector"]:
        raise KubectlError("setting 'all' parameter with a non empty selector is prohibited")
    if not (options["selects_all"] or options["selector"]) and len(resources) < 2:
        raise KubectlError("at least one resource name must be specified since 'all' parameter is not set")
