"""`sampan help`: the help of a command, and topics that concern all of them, such as the exit codes, which docs/cli.md
lists too.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import click

from sampan.machinery.cli_errors import CliError

_WIDTH = 80
_CODE, _COMMANDS = 11, 26
"""The widths of the first two columns of the exit codes."""
_ENVIRONMENT = (
    ("SAMPAN_HOME", "Directory of the data directories of clusters. Default: ~/.local/share/sampan."),
    ("SAMPAN_NAME", "Name of the cluster, as --name."),
    ("SAMPAN_DATA_DIR", "Data directory of the cluster, as --data-dir."),
    ("SAMPAN_COMMAND_FLAG", "Default of any other flag, for example SAMPAN_UP_NODES=2."),
    ("KUBECONFIG", "Kubeconfigs of kubectl, why, trace and top; several are separated by colons."),
)


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND... | TOPIC]")
@click.pass_context
def command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a command, or a topic.

    \b
    Topics:
      exit-codes    the exit codes of all commands
      environment   the variables that commands read
    """
    if len(words) == 1 and words[0] in TOPICS:
        click.echo(TOPICS[words[0]]())
        return
    root = context.find_root()
    click.echo(_command_help(root, words))


def _command_help(context: click.Context, words: tuple[str, ...]) -> str:
    current = context.command
    for word in words:
        inner = current.get_command(context, word) if isinstance(current, click.Group) else None
        if inner is None:
            raise CliError(f"there is no command or topic {' '.join(words)!r}; topics: {', '.join(TOPICS)}")
        context, current = click.Context(inner, info_name=word, parent=context), inner
    return current.get_help(context)


def exit_codes_text() -> str:
    lines = [f"{'CODE':<{_CODE}}{'COMMANDS':<{_COMMANDS}}MEANING"]
    for entry in EXIT_CODES:
        head = f"{entry.code:<{_CODE}}{entry.commands:<{_COMMANDS}}"
        indent = " " * (_CODE + _COMMANDS)
        lines += textwrap.wrap(entry.meaning, _WIDTH, initial_indent=head, subsequent_indent=indent)
    return "\n".join(lines)


def environment_text() -> str:
    lines: list[str] = []
    for name, meaning in _ENVIRONMENT:
        lines += textwrap.wrap(meaning, _WIDTH, initial_indent=f"{name:<22}", subsequent_indent=" " * 22)
    return "\n".join(lines)


TOPICS: Mapping[str, Callable[[], str]] = {"exit-codes": exit_codes_text, "environment": environment_text}


@dataclass(frozen=True, slots=True)
class ExitCode:
    code: str
    commands: str
    meaning: str


EXIT_CODES: Sequence[ExitCode] = (
    ExitCode("0", "all", "The command has succeeded."),
    ExitCode(
        "1",
        "all",
        "The command has failed: an invalid value or file, a port in use, an error of the server, or a bug of Sampan, "
        "whose traceback is in a file that the message names.",
    ),
    ExitCode("2", "all", "The command line cannot be parsed: an unknown command or flag, a value of the wrong type."),
    ExitCode("130", "all", "Ctrl-C has interrupted the command."),
    ExitCode("1", "status, service status", "The selected cluster or service is not running."),
    ExitCode("1", "doctor", "A check has the result error. Warnings do not change the exit code."),
    ExitCode("1", "kubectl diff", "There are differences."),
    ExitCode("2 and more", "kubectl diff", "The comparison itself has failed."),
    ExitCode("1 to 255", "kubectl exec, run, attach", "The exit code of the command in the container."),
    ExitCode("any", "kubectl, plugins", "The exit code of the plugin on PATH."),
)
