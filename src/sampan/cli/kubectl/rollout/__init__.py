"""`kubectl rollout`: follow and control the rollouts of workloads, one module per command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from sampan.cli.kubectl.command import KubectlGroup
from sampan.cli.kubectl.errors import ErrorAggregate, KubectlError
from sampan.cli.kubectl.factory import Factory
from sampan.cli.kubectl.options import Decorator, filename_flags, filename_options, selector_option, together
from sampan.cli.kubectl.targets import ResourceBuilder

COMMANDS = ("history", "pause", "restart", "resume", "status", "undo")


class RolloutGroup(KubectlGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        subcommand: click.Command = import_module(f"sampan.cli.kubectl.rollout.{name}").command
        return subcommand


command = RolloutGroup("rollout", help="Follow and control the rollouts of deployments, daemon sets, stateful sets.")


def rollout_options() -> Decorator:
    """The words, -f, -k, -R and -l of all commands of this group."""
    return together(click.argument("words", nargs=-1), filename_options("to work on"), selector_option())


def rollout_builder(factory: Factory, words: Sequence[str], options: Mapping[str, Any]) -> ResourceBuilder:
    """Return the workloads of a command line; a type alone means all of its objects."""
    files = filename_flags(options)
    if not (words or files):
        raise KubectlError("required resource not specified")
    return factory.resources(
        words=words, files=files, selector=options["selector"], allows_all=True, fetches_latest=True
    )


def report_no_resources(factory: Factory, errors: ErrorAggregate) -> None:
    """Say that nothing was selected, unless there are errors."""
    if not errors:
        click.echo(f"No resources found in {factory.namespace} namespace.", err=True)
