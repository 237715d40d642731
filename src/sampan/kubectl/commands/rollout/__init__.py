"""`kubectl rollout`: follow and control the rollouts of workloads, one module per command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import LateGroup
from sampan.kubectl.command_line.shared_options import (
    Decorator,
    combine_options,
    filename_flags,
    filename_options,
    selector_option,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError
from sampan.kubectl.objects.targets import ResourceBuilder

_COMMANDS = ("history", "pause", "restart", "resume", "status", "undo")


command = LateGroup(
    "rollout",
    package=__name__,
    modules={name: (name, ()) for name in _COMMANDS},
    help="Follow and control the rollouts of deployments, daemon sets, stateful sets.",
)


def rollout_options() -> Decorator:
    """Return a decorator that adds the arguments and flags of all `rollout` commands: the words, -f, -k, -R and -l."""
    return combine_options(click.argument("words", nargs=-1), filename_options("to work on"), selector_option())


def rollout_builder(factory: Factory, words: Sequence[str], options: Mapping[str, Any]) -> ResourceBuilder:
    """Return the resources of a `rollout` command line. A type without names means all objects of the type."""
    files = filename_flags(options)
    if not (words or files):
        raise KubectlError("required resource not specified")
    return factory.resources(
        words=words, files=files, selector=options["selector"], allows_all=True, fetches_latest=True
    )


def report_no_resources(factory: Factory, errors: ErrorAggregate) -> None:
    """Print that no resources were found, unless there are errors."""
    if not errors:
        click.echo(f"No resources found in {factory.namespace} namespace.", err=True)
