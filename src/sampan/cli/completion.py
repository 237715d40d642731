"""`sampan completion`: print a script with which a shell completes commands and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from sampan.machinery.cli_errors import CliError

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print a completion script for a shell.

    \b
    Examples:
      source <(sampan completion bash)
      sampan completion zsh > "${fpath[1]}/_sampan"
      sampan completion fish > ~/.config/fish/completions/sampan.fish
    """
    from sampan.cli.main import cli

    completion = get_completion_class(shell)
    if completion is None:
        raise CliError(f"there is no completion for {shell}")
    click.echo(completion(cli, {}, "sampan", "_SAMPAN_COMPLETE").source())
