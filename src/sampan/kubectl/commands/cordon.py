"""`kubectl cordon`: mark nodes as unschedulable. `uncordon` and `drain` use the same functions (`cmd/drain`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, changed_flags
from sampan.kubectl.command_line.shared_flags import dry_run_flag, dry_run_strategy, selector_flag
from sampan.kubectl.errors import ServerError, UsageError
from sampan.kubectl.objects.object_writer import STRATEGIC, ObjectWriter
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceFetch, ResourceInfo, ResourceSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonOptions:
    words: tuple[str, ...] = arguments()
    selector: str = selector_flag()
    dry_run: str = dry_run_flag()
    changed_flags: frozenset[str] = changed_flags()


class NodeFlags(Protocol):
    """The options of a command that works on nodes."""

    @property
    def words(self) -> tuple[str, ...]: ...
    @property
    def selector(self) -> str: ...
    @property
    def changed_flags(self) -> frozenset[str]: ...


@KubectlCommand.define("cordon", CordonOptions)
def command(factory: Factory, options: CordonOptions) -> None:
    """Mark nodes as unschedulable: no new pods are placed there."""
    dry_run = dry_run_strategy(options.dry_run)
    nodes = select_nodes(factory, "cordon", options)
    set_schedulable(factory, nodes, is_cordoned=True, dry_run=dry_run)


_SUFFIXES = {"client": " (dry run)", "server": " (server dry run)"}


def select_nodes(factory: Factory, name: str, options: NodeFlags, chunk_size: int = 0) -> list[ResourceInfo]:
    """Return the nodes that the words or the selector select. `name` is the name of the command, for its error
    messages."""
    words, selector = options.words, options.selector
    if not words and "selector" not in options.changed_flags:
        raise UsageError(f"USAGE: {name} NODE [flags]")
    if words and selector:
        raise UsageError("error: cannot specify both a node name and a --selector option")
    types = ["nodes"] if not words else [word if "/" in word else f"nodes/{word}" for word in words]
    return list(
        ResourceBuilder(
            factory,
            ResourceSelection(words=types, selector=selector, selects_all=not (words or selector)),
            fetch=ResourceFetch(chunk_size=chunk_size),
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
