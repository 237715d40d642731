"""`kubectl plugin`, and the execution of plugins: programs on the PATH whose names start with `kubectl-`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand, KubectlGroup
from sampan.kubectl.command_line.flags import bool_flag
from sampan.kubectl.commands import COMMANDS
from sampan.kubectl.errors import KubectlError

_PREFIXES = ("kubectl-",)


command = KubectlGroup("plugin", help="List plugins: programs on the PATH whose names start with kubectl-.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPluginsOptions:
    name_only: bool = bool_flag("--name-only", help="Print only the names of the plugins, without their directories.")


@KubectlCommand.define("list", ListPluginsOptions)
def list_plugins(factory: Factory, options: ListPluginsOptions) -> None:
    """List the plugins on the PATH, and warn about those that cannot be used."""
    paths = list(_plugin_paths())
    if not paths:
        raise KubectlError("unable to find any kubectl plugins in your PATH")
    click.echo("The following compatible plugins are available:\n")
    paths_by_name: dict[str, str] = {}
    count = 0
    for path in paths:
        name = os.path.basename(path)
        click.echo(name if options.name_only else path)
        for warning in _warnings(path, name, paths_by_name):
            click.echo(f"  - {warning}", err=True)
            count += 1
        paths_by_name.setdefault(name, path)
    if count:
        word = "one plugin warning was found" if count == 1 else f"{count} plugin warnings were found"
        raise KubectlError(word)


def plugin_commands() -> list[str]:
    """Return the commands that plugins add, for example `ns` for the program kubectl-ns."""
    paths = [path for path in _plugin_paths(is_silent=True) if os.access(path, os.X_OK)]
    names = {os.path.basename(path).partition("-")[2] for path in paths}
    return sorted(name.replace("-", " ").replace("_", "-") for name in names if name)


def _plugin_paths(*, is_silent: bool = False) -> Iterator[str]:
    for directory in dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep)):
        if not directory.strip():
            continue
        try:
            names = sorted(entry.name for entry in os.scandir(directory) if not entry.is_dir())
        except OSError as error:
            if not is_silent:
                reason = f"open {directory}: {(error.strerror or '').lower()}"
                click.echo(f'Unable to read directory "{directory}" from your PATH: {reason}. Skipping...', err=True)
            continue
        yield from (os.path.join(directory, name) for name in names if name.startswith(_PREFIXES))


def _warnings(path: str, name: str, paths_by_name: dict[str, str]) -> Iterator[str]:
    parts = name.split("-")[1:]
    if parts and parts[0] in COMMANDS and parts[0] != "create":
        yield f'warning: {name} overwrites existing command: "kubectl {parts[0]}"'
    if not os.access(path, os.X_OK):
        yield f"warning: {path} identified as a kubectl plugin, but it is not executable"
    if name in paths_by_name:
        yield f"warning: {path} is overshadowed by a similarly named plugin: {paths_by_name[name]}"


def run_plugin(args: Sequence[str], *, min_words: int = 1) -> None:
    """Replace this process by a plugin. The words before the first flag name it, and the longest name that exists
    wins. At least `min_words` words must match. Return if there is no such plugin."""
    words: list[str] = []
    for arg in args:
        if arg.startswith("-"):
            break
        words.append(arg.replace("-", "_"))
    for count in range(len(words), min_words - 1, -1):
        path = shutil.which(f"kubectl-{'-'.join(words[:count])}")
        if path is not None:
            environment = {**os.environ, "KUBECTL_PATH": os.path.abspath(shutil.which(sys.argv[0]) or sys.argv[0])}
            os.execve(path, [path, *args[count:]], environment)


command.add_command(list_plugins)
