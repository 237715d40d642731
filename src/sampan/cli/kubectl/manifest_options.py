"""Options that create and apply share: which files to read, and how the objects in them are sent."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click


def manifest_options(action: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of a command that sends the objects in files; `action` is its verb, for the help text."""
    options = (
        click.option(
            "-f",
            "--filename",
            "files",
            multiple=True,
            required=True,
            metavar="F",
            help=f"File, directory or - (standard input) with the objects to {action}.",
        ),
        click.option("-R", "--recursive", is_flag=True, help="Process the directory given with -f recursively."),
        click.option("-n", "--namespace", default="", metavar="NS", help="Namespace of the objects."),
        click.option(
            "--dry-run",
            default="none",
            type=click.Choice(["none", "server"]),
            help='With "server", send the request and validate it without storing anything.',
        ),
    )
    return lambda command: functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)
