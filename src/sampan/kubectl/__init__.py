"""`sampan kubectl`: the commands of kubectl with the same flags and output, for machines without it.

There is one module or package per command (`staging/src/k8s.io/kubectl/pkg/cmd`), with the attribute `command`.
Commands are short-lived, so they use the HTTP client of the standard library and untyped values: importing aiohttp and
the API types would take longer than most commands. What commands share is in `command_line` (flags and help), `client`
(connection and resource types), `objects` (which objects, and how they are written), `printers`, `describers`,
`kustomization` and `errors`.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click

from sampan.kubectl.command_line.command import PREFERENCES, KubectlGroup
from sampan.kubectl.errors import KubectlError, PlainError

GROUPS = {
    "Basic Commands (Beginner)": {
        "create": "Create objects from files, or by their properties.",
        "expose": "Expose pods, a deployment or a service as a new service.",
        "run": "Run an image in a pod.",
        "set": "Set properties of objects, such as images and environment variables.",
    },
    "Basic Commands (Intermediate)": {
        "explain": "Show the documentation of a resource type.",
        "get": "List objects or show one.",
        "edit": "Edit objects in an editor.",
        "delete": "Delete objects by name, label or file.",
    },
    "Deploy Commands": {
        "rollout": "Manage the rollout of a deployment, daemon set or stateful set.",
        "rolling-update": "Replace a replication controller step by step.",
        "scale": "Set the number of replicas.",
        "autoscale": "Create a horizontal pod autoscaler.",
    },
    "Cluster Management Commands": {
        "certificate": "Approve or deny certificate signing requests.",
        "cluster-info": "Show the addresses of the control plane and its services.",
        "top": "Show resource usage of nodes or pods.",
        "cordon": "Mark nodes as unschedulable.",
        "uncordon": "Mark nodes as schedulable.",
        "drain": "Evict the pods of nodes before maintenance.",
        "taint": "Update the taints of nodes.",
    },
    "Troubleshooting and Debugging Commands": {
        "describe": "Show the details of objects and their events.",
        "logs": "Print the logs of a container.",
        "attach": "Attach to the main process of a container.",
        "exec": "Run a command in a container.",
        "port-forward": "Forward local ports to a pod.",
        "proxy": "Run a proxy to the API server.",
        "cp": "Copy files to and from a container.",
        "auth": "Inspect authorization.",
        "debug": "Debug pods and nodes with additional containers.",
        "events": "List events.",
    },
    "Advanced Commands": {
        "diff": "Show what apply would change.",
        "apply": "Apply the configuration in files to objects.",
        "patch": "Change fields of objects.",
        "replace": "Replace objects by those in files.",
        "wait": "Wait for a condition of objects.",
        "kustomize": "Print the objects of a kustomization.",
    },
    "Settings Commands": {
        "label": "Update the labels of objects.",
        "annotate": "Update the annotations of objects.",
        "completion": "Print the completion script for a shell.",
    },
    "Other Commands": {
        "api-resources": "Print the resource types of the server.",
        "api-versions": "Print the API versions of the server.",
        "config": "Change kubeconfig files.",
        "kuberc": "Manage preferences in kuberc files.",
        "options": "List the global flags.",
        "plugin": "List plug-ins.",
        "version": "Print the versions of client and server.",
    },
}
"""The commands with their help texts, grouped as in the help of kubectl."""

_COMPLETE = "__complete"
_EXTENSIBLE = "create"
"""The command whose sub-commands may be plug-ins."""
_SIMILAR = 2
_SYNONYMS = {"get": ("list", "ls"), "delete": ("rm", "remove"), "describe": ("inspect",), "top": ("stats",)}
COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}


class RootGroup(KubectlGroup):
    """The group of all commands, which are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS and name != _COMPLETE:
            return None
        if name == _COMPLETE:
            name = "complete"
        subcommand: click.Command = import_module(f"{__name__}.{name.replace('-', '_')}").command
        return subcommand

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
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
        """Run a plug-in such as kubectl-create-thing for a sub-command that does not exist."""
        group = self.get_command(ctx, _EXTENSIBLE)
        if isinstance(group, KubectlGroup) and args[1] not in group.list_commands(ctx):
            from sampan.kubectl.plugin import run_plugin

            run_plugin(args, least=2)

    def report_missing_command(self, ctx: click.Context) -> None:
        click.echo(self.get_help(ctx), color=ctx.color)

    def _unknown_command(self, word: str, args: list[str]) -> KubectlError:
        if args[0].startswith("-"):
            return PlainError(f"Error: flags cannot be placed before plugin name: {args[0]}")
        from sampan.kubectl.plugin import run_plugin

        run_plugin(args)
        return KubectlError(f'unknown command "{word}" for "kubectl"' + suggestions(word))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from sampan.kubectl.command_line.help_text import write_rows
        from sampan.kubectl.plugin import plugin_commands

        for title, commands in GROUPS.items():
            write_rows(formatter, title, list(commands.items()))
        if plugins := plugin_commands():
            rows = [(name, f"The command {name} is a plug-in installed by the user.") for name in plugins]
            write_rows(formatter, "Subcommands provided by plug-ins", rows)


def suggestions(word: str) -> str:
    """Return the hint of cobra that lists commands with similar names; empty if there are none."""
    names = [
        name
        for name in COMMANDS
        if _distance(word.lower(), name) <= _SIMILAR or name.startswith(word.lower()) or word in _SYNONYMS.get(name, ())
    ]
    return "\n\nDid you mean this?\n" + "\n".join(f"\t{name}" for name in names) if names else ""


def _distance(left: str, right: str) -> int:
    """Return the Levenshtein distance of two words."""
    row = list(range(len(right) + 1))
    for at, char in enumerate(left, 1):
        above, row[0] = row[0], at
        for column, other in enumerate(right, 1):
            above, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, above + (char != other))
    return row[-1]


@click.group("kubectl", cls=RootGroup, context_settings={"help_option_names": ["-h", "--help"]})
def command(**options: Any) -> None:
    """Control a cluster with the commands of kubectl."""


__all__ = ["COMMANDS", "GROUPS", "command"]
