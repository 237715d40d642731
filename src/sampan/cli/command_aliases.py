"""Other names of subcommands that people type from habit."""

from __future__ import annotations

import click

_ALIASES = {"list": "ls", "ls": "list", "rm": "remove", "remove": "rm", "delete": "remove", "create": "add"}


class AliasGroup(click.Group):
    """A group whose commands also have the common names for the same thing: ls and list, rm and remove."""

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        command = super().get_command(ctx, name)
        if command is None and name in _ALIASES:
            command = super().get_command(ctx, _ALIASES[name])
        return command
