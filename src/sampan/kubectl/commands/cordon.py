"""`kubectl cordon`: mark nodes as unschedulable. `uncordon` and `drain` use the same functions (`cmd/drain`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import CHANGED_FLAGS, KubectlCommand
from sampan.kubectl.command_line.shared_options import dry_run_of, dry_run_option, selector_option
from sampan.kubectl.errors import ServerError, UsageError
from sampan.kubectl.objects.object_writer import STRATEGIC, ObjectWriter
from sampan.kubectl.objects.targets import ResourceInfo


@click.command("cordon", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@selector_option()
@dry_run_option()
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Mark nodes as unschedulable: no new pods are placed there."""
    dry_run = dry_run_of(options)
    nodes = select_nodes(factory, "cordon", words, options["selector"])
    set_schedulable(factory, nodes, is_cordoned=True, dry_run=dry_run)


_SUFFIXES = {"client": " (dry run)", "server": " (server dry run)"}


def select_nodes(
    factory: Factory, name: str, words: Sequence[str], selector: str, chunk_size: int = 0
) -> list[ResourceInfo]:
    """Return the nodes that the words or the selector select. `name` is the name of the command, for its error
    messages."""
    changed = click.get_current_context().meta[CHANGED_FLAGS]
    if not words and "selector" not in changed:
        raise UsageError(f"USAGE: {name} NODE [flags]")
    if words and selector:
        raise UsageError("error: cannot specify both a node name and a --selector option")
    types = ["nodes"] if not words else [word if "/" in word else f"nodes/{word}" for word in words]
    return list(
        factory.resources(
            words=types, selector=selector, selects_all=not (words or selector), chunk_size=chunk_size
        ).infos()
    )


def set_schedulable(factory: Factory, nodes: Sequence[ResourceInfo], *, is_cordoned: bool, dry_run: str) -> None:
    """Cordon or uncordon nodes and report each of them. If a node cannot be changed, print the error and continue with
    the next node."""
    verb = "cordon" if is_cordoned else "uncordon"
    writer = ObjectWriter(session=factory.session, dry_run=dry_run)
    for node in nodes:
        operation = f"{verb}ed"
        if bool((node.value.get("spec") or {}).get("unschedulable")) == is_cordoned:
            operation = f"already {operation}"
        elif dry_run != "client":
            patch: dict[str, Any] = {"spec": {"unschedulable": True if is_cordoned else None}}
            try:
                writer.patch(node, patch, STRATEGIC)
            except ServerError as error:
                click.echo(f'error: unable to {verb} node "{node.name}": {error.error.message}', err=True)
                continue
        report_node(node, operation, dry_run)


def report_node(node: ResourceInfo, operation: str, dry_run: str) -> None:
    click.echo(f"{node.qualified_name} {operation}{_SUFFIXES.get(dry_run, '')}")
