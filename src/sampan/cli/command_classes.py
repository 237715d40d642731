"""Subclasses of click's classes for the commands of `sampan`: help texts that show options in named groups and never
break a flag at a hyphen, and command groups whose subcommands have aliases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import click

_SIMILARITY = 0.6
_SYNONYMS = (("ls", "list"), ("rm", "remove", "delete"), ("add", "create"))


class SuggestingGroup(click.Group):
    """A command group that answers an unknown subcommand with those of similar names."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            similar = get_close_matches(args[0], self.list_commands(ctx), cutoff=_SIMILARITY)
            hint = f" Did you mean {' or '.join(map(repr, similar))}?" if similar else ""
            raise click.UsageError(error.message + hint, ctx) from None


class AliasGroup(SuggestingGroup):
    """A command group whose subcommands also answer to their usual aliases, for example `ls` and `list`, or `rm`,
    `remove` and `delete`."""

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        others = next((names for names in _SYNONYMS if name in names), ())
        candidates = (super(AliasGroup, self).get_command(ctx, candidate) for candidate in (name, *others))
        return next((command for command in candidates if command is not None), None)


OptionGroup = tuple[str, Sequence[str]]
"""A heading of a help text, and the names of the parameters below it in the order in which they are shown."""


_UNBREAKABLE_HYPHEN = "\N{NON-BREAKING HYPHEN}"
_HYPHEN_IN_WORD_PATTERN = re.compile(r"(?<=\S)-(?=\S)|-(?=-)")


class HelpFormatter(click.HelpFormatter):
    """Wraps lines between words only. Click also breaks words at hyphens, which cuts flags in two."""

    def write_text(self, text: str) -> None:
        super().write_text(_unbreakable(text))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(name, _unbreakable(text)) for name, text in rows], col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(_UNBREAKABLE_HYPHEN, "-")


def _unbreakable(text: str) -> str:
    return _HYPHEN_IN_WORD_PATTERN.sub(_UNBREAKABLE_HYPHEN, text)


class GroupedCommand(click.Command):
    """A command whose help shows its options in groups. Options that belong to no group come last, below the heading
    `rest`."""

    def __init__(self, *arguments: Any, groups: Sequence[OptionGroup], remainder: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._groups, self._rest = groups, remainder

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
