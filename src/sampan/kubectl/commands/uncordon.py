"""`kubectl uncordon`: mark nodes as schedulable."""

from __future__ import annotations

from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.shared_options import dry_run_of, dry_run_option, selector_option
from sampan.kubectl.commands.cordon import select_nodes, set_schedulable


@click.command("uncordon", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@selector_option()
@dry_run_option()
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Mark nodes as schedulable."""
    dry_run = dry_run_of(options)
    nodes = select_nodes(factory, "uncordon", words, options["selector"])
    set_schedulable(factory, nodes, is_cordoned=False, dry_run=dry_run)
