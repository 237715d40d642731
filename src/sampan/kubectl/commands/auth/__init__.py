"""`kubectl auth`: inspect authorization."""

from __future__ import annotations

import click

from sampan.kubectl.command_line.command import KubectlGroup
from sampan.kubectl.commands.auth import can_i, reconcile, whoami


@click.group("auth", cls=KubectlGroup)
def command() -> None:
    """Inspect authorization: what the current user may do, and who that is."""


command.add_command(can_i.command)
command.add_command(reconcile.command)
command.add_command(whoami.command)

__all__ = ["command"]
