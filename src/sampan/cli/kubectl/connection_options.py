"""The options with which every command that talks to a cluster selects the API server and the credentials."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

_OPTIONS = (
    click.option("--kubeconfig", metavar="F", help="Path of the kubeconfig file."),
    click.option(
        "--context", "context_name", metavar="NAME", default="", help="Name of the kubeconfig context to use."
    ),
    click.option("-s", "--server", metavar="URL", default="", help="Address of the Kubernetes API server."),
    click.option("--token", metavar="T", default="", help="Bearer token for authentication to the API server."),
    click.option(
        "--insecure-skip-tls-verify",
        "insecure",
        is_flag=True,
        help="Do not verify the certificate of the API server. This makes connections insecure.",
    ),
)


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `open_session` reads."""
    return functools.reduce(lambda decorated, option: option(decorated), reversed(_OPTIONS), command)
