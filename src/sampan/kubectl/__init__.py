"""`sampan kubectl`: the commands of kubectl with the same flags and output, for machines without it.

The commands are in `commands` (`staging/src/k8s.io/kubectl/pkg/cmd`). They are short-lived, so they use the HTTP
client of the standard library and untyped values: importing aiohttp and the API types would take longer than most
commands. What commands share is in `command` (how a function with options becomes a command), `command_line` (flags and
help), `client` (connection and resource types), `objects` (which objects, and how they are written), `printers`,
`describers`, `kustomization`, `documents` and `errors`; the layers are a contract in `pyproject.toml`.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

import click

from sampan.kubectl.command import CLUSTERS, PREFERENCES, KubectlGroup
from sampan.kubectl.commands import COMMANDS, GROUPS
from sampan.kubectl.errors import KubectlError, PlainError

if TYPE_CHECKING:
    from sampan.kubectl.client.local_clusters import LocalClusters

_COMPLETE = "__complete"
_HIDDEN = {_COMPLETE: "complete", "alpha": "alpha"}
"""The modules of commands that the help does not list."""
_EXTENSIBLE = "create"
"""The command whose sub-commands may be plugins."""
_SIMILAR = 2
_SYNONYMS = {"get": ("list", "ls"), "delete": ("rm", "remove"), "describe": ("inspect",), "top": ("stats",)}


class RootGroup(KubectlGroup):
    """The group of all commands, which are imported when they are used. `clusters` are those that commands may use
    without a kubeconfig."""

    def __init__(self, clusters: LocalClusters) -> None:
        super().__init__("kubectl", help="Control a cluster with the commands of kubectl.")
        self._clusters = clusters

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS and name not in _HIDDEN:
            return None
        module = _HIDDEN.get(name, name.replace("-", "_"))
        subcommand: click.Command = import_module(f"{__name__}.commands.{module}").command
        return subcommand

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[CLUSTERS] = self._clusters
        if args[:1] != [_COMPLETE]:
            args = self._apply_preferences(ctx, args)
        if args[:1] == [_EXTENSIBLE] and len(args) > 1 and not args[1].startswith("-"):
            self._run_subcommand_plugin(ctx, args)
        if self.find_subcommand(ctx, args) is None and (words := self.flag_set().words(args)):
            raise self._unknown_command(words[0], args)
        return super().parse_args(ctx, args)

    def _apply_preferences(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Expand an alias of the user's kuberc file, if there is one. Store the default flags for the command in
        `ctx.meta`."""
        is_named = bool(os.environ.get("KUBERC")) or any(word.startswith("--kuberc") for word in args)
        if not is_named and not os.path.exists(os.path.expanduser("~/.kube/kuberc")):
            return args
        from sampan.kubectl.command_line.preferences import apply_preferences

        preferences = apply_preferences(args, self.flag_set(), lambda words: self.find_path(ctx, words))
        ctx.meta[PREFERENCES] = preferences
        return preferences.args

    def _run_subcommand_plugin(self, ctx: click.Context, args: list[str]) -> None:
        """Run a plugin such as kubectl-create-thing for a sub-command that does not exist."""
        group = self.get_command(ctx, _EXTENSIBLE)
        if isinstance(group, KubectlGroup) and args[1] not in group.list_commands(ctx):
            from sampan.kubectl.commands.plugin import run_plugin

            run_plugin(args, min_words=2)

    def report_missing_command(self, ctx: click.Context) -> None:
        click.echo(self.get_help(ctx), color=ctx.color)

    def _unknown_command(self, word: str, args: list[str]) -> KubectlError:
        if args[0].startswith("-"):
            return PlainError(f"Error: flags cannot be placed before plugin name: {args[0]}")
        from sampan.kubectl.commands.plugin import run_plugin

        run_plugin(args)
        return KubectlError(f'unknown command "{word}" for "kubectl"' + suggestions(word))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from sampan.kubectl.command_line.help_text import write_rows
        from sampan.kubectl.commands.plugin import plugin_commands

        for title, commands in GROUPS.items():
            write_rows(formatter, title, list(commands.items()))
        if plugins := plugin_commands():
            rows = [(name, f"The command {name} is a plugin installed by the user.") for name in plugins]
            write_rows(formatter, "Subcommands provided by plugins", rows)


def suggestions(word: str) -> str:
    """Return the hint of cobra that lists commands with similar names; empty if there are none."""
    names = [
        name
        for name in COMMANDS
        if _distance(word.lower(), name) <= _SIMILAR or name.startswith(word.lower()) or word in _SYNONYMS.get(name, ())
    ]
    return "\n\nDid you mean this?\n" + "\n".join(f"\t{name}" for name in names) if names else ""


def _distance(first_word: str, second_word: str) -> int:
    """Return the Levenshtein distance of two words."""
    row = list(range(len(second_word) + 1))
    for row_number, char in enumerate(first_word, 1):
        above, row[0] = row[0], row_number
        for column, second_char in enumerate(second_word, 1):
            above, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, above + (char != second_char))
    return row[-1]


__all__ = ["COMMANDS", "GROUPS", "RootGroup"]
