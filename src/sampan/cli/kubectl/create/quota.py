"""`kubectl create quota`: a ResourceQuota from --hard and --scopes."""

from __future__ import annotations

from typing import Any

import click

from sampan.api import quantity
from sampan.cli.failures import CliError
from sampan.cli.kubectl.create.generated import metadata
from sampan.cli.kubectl.create.generator import generator_command


def resource_quota(name: str, namespace: str = "", *, hard: str = "", scopes: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if hard:
        spec["hard"] = _hard_limits(hard)
    if scopes:
        spec["scopes"] = scopes.split(",")
        if "" in spec["scopes"]:
            raise CliError('invalid resource quota scope ""')
    return {
        "kind": "ResourceQuota",
        "apiVersion": "v1",
        "metadata": metadata(name, namespace),
        "spec": spec,
        "status": {},
    }


def _hard_limits(text: str) -> dict[str, str]:
    limits: dict[str, str] = {}
    for statement in text.split(","):
        if statement.count("=") != 1:
            raise CliError(f"Invalid argument syntax {statement}, expected <resource>=<value>")
        resource, _, amount = statement.partition("=")
        try:
            limits[resource] = quantity.canonical(amount)
        except ValueError as error:
            raise CliError(str(error)) from None
    return limits


command = generator_command(
    "quota",
    click.option("--hard", default="", metavar="RESOURCE=AMOUNT,...", help="Limits of the namespace."),
    click.option("--scopes", default="", metavar="SCOPE,...", help="Scopes that objects must match to be counted."),
    help="Create a resource quota.",
    failure="failed to create quota:",
    aliases=("resourcequota",),
)(resource_quota)
