"""`kubectl options`: list the global flags."""

from __future__ import annotations

import click

from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.global_options import GLOBAL_OPTIONS


@click.command("options", cls=KubectlCommand)
@click.pass_context
def command(ctx: click.Context, /) -> None:
    """List the flags that every command takes."""
    click.echo("The following options can be passed to any command:\n")
    formatter = ctx.make_formatter()
    formatter.write_dl([record for option in GLOBAL_OPTIONS if (record := option.get_help_record(ctx)) is not None])
    click.echo(formatter.getvalue(), nl=False)
