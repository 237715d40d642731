"""Help texts whose options are in named groups, the most important ones first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

OptionGroup = tuple[str, Sequence[str]]
"""A title and the names of parameters, in the order in which they are shown."""


class GroupedCommand(click.Command):
    """A command whose help shows its options in groups. Options that no group names are shown last, under `rest`."""

    def __init__(self, *arguments: Any, groups: Sequence[OptionGroup], rest: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._groups, self._rest = groups, rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {
            parameter.name: record
            for parameter in self.get_params(ctx)
            if (record := parameter.get_help_record(ctx)) is not None
        }
        named = {name for _, names in self._groups for name in names}
        others = [name for name in records if name not in named]
        for title, names in [*self._groups, (self._rest, others)]:
            rows = [records[name] for name in names if name in records]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
