"""`sampan kubectl`: the most common commands of kubectl with the same output, for machines without it.

There is one module per command (`staging/src/k8s.io/kubectl/pkg/cmd`). Commands are short-lived, so they use the HTTP
client of the standard library and untyped values: importing aiohttp and the API types would take longer than most
commands.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from sampan.cli.failures import CliError, guarded
from sampan.cli.kubectl.connection_options import connection_options

COMMANDS = {
    "get": "List objects or show one.",
    "describe": "Show the details of objects and their events.",
    "create": "Create objects from files.",
    "apply": "Apply the configuration in files to objects.",
    "delete": "Delete objects by name, label or file.",
    "logs": "Print the logs of a container.",
    "exec": "Run a command in a container.",
    "attach": "Attach to the main process of a container.",
    "port-forward": "Forward local ports to a pod.",
    "cp": "Copy files to and from a container.",
    "top": "Show resource usage of nodes or pods.",
}


class Failure(CliError):
    """An error on the client side, printed in the format of kubectl."""

    def show(self, file: Any = None) -> None:
        click.echo(f"error: {self.message}", err=True)


class Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return guarded(lambda: click.Group.invoke(self, ctx))
        except CliError as error:
            if type(error).show is not CliError.show:
                raise
            raise Failure(error.message) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, subcommand, rest = super().resolve_command(ctx, args)
        return name, subcommand, _as_click_reads(subcommand, rest) if subcommand is not None else rest

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        subcommand: click.Command = import_module(f"sampan.cli.kubectl.{name.replace('-', '_')}").command
        return subcommand

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _as_click_reads(command: click.Command, words: list[str]) -> list[str]:
    """Rewrite arguments that kubectl accepts and click does not: `-o=yaml`, and `--wait=false` for boolean flags."""
    switches = {name: param for param in command.params if getattr(param, "is_flag", False) for name in param.opts}
    end = words.index("--") if "--" in words else len(words)
    read: list[str] = []
    for word in words[:end]:
        name, equals, value = word.partition("=")
        if name == "-o" and equals:
            read += ["-o", value]
        elif equals and name in switches and value.lower() in ("true", "false"):
            read += [name] if value.lower() == "true" else switches[name].secondary_opts[:1]
        else:
            read.append(word)
    return read + words[end:]


@click.group("kubectl", cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@connection_options
@click.option("-n", "--namespace", metavar="NS", default="", help="Namespace of the objects.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Control a cluster with commands of kubectl."""
    ctx.obj = options


__all__ = ["COMMANDS", "command"]
