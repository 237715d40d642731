"""`kubectl alpha`: the group of experimental commands, of which this version of kubectl has none."""

from __future__ import annotations

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.shared_flags import NoOptions


@KubectlCommand.define("alpha", NoOptions)
def command(factory: Factory, options: NoOptions) -> None:
    """Say that there are no experimental commands."""
    click.echo("No alpha commands are available in this version of kubectl")
