"""Profiles of `sampan up`: named sets of defaults for one purpose. Flags and variables override them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

CI = "ci"
PROFILES: Mapping[str, Mapping[str, Any]] = {
    CI: {"store": "memory", "is_detached": True, "forget_flags": True, "ingress": False},
}
"""The parameters of `sampan up` that each profile sets."""


def profile_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --profile to a command. It is evaluated before all other options, whose defaults it sets."""
    return click.option(
        "--profile",
        type=click.Choice(list(PROFILES)),
        is_eager=True,
        callback=_set_defaults,
        help="Defaults for a purpose. ci is for jobs that end with the machine: --store memory, --detach (the command "
        "returns when the cluster is ready), --forget-flags, --ingress=false, and one line of output.",
    )(command)


def _set_defaults(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    if name is not None:
        context.default_map = {**(context.default_map or {}), **PROFILES[name]}
    return name
