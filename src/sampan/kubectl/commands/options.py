"""`kubectl options`: list the global flags."""

from __future__ import annotations

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.global_options import GLOBAL_FLAGS
from sampan.kubectl.command_line.shared_flags import NoOptions


@KubectlCommand.define("options", NoOptions)
def command(factory: Factory, options: NoOptions) -> None:
    """List the flags that every command takes."""
    click.echo("The following options can be passed to any command:\n")
    ctx = click.get_current_context()
    formatter = ctx.make_formatter()
    formatter.write_dl([record for option in GLOBAL_FLAGS if (record := option.get_help_record(ctx)) is not None])
    click.echo(formatter.getvalue(), nl=False)
