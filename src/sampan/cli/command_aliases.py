"""Other names of subcommands that people type from habit."""

from __future__ import annotations

import click

_SYNONYMS = (("ls", "list"), ("rm", "remove", "delete"), ("add", "create"))


class AliasGroup(click.Group):
    """A group whose commands also have the common names for the same thing: ls and list, rm, remove and delete."""

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        others = next((names for names in _SYNONYMS if name in names), ())
        candidates = (super(AliasGroup, self).get_command(ctx, candidate) for candidate in (name, *others))
        return next((command for command in candidates if command is not None), None)
