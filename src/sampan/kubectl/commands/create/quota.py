"""`kubectl create quota`: a ResourceQuota from --hard and --scopes."""

from __future__ import annotations

from typing import Any

import click

from sampan.kubectl.command_line.pairs import parse_amounts
from sampan.kubectl.commands.create.generator import generator_command, metadata
from sampan.machinery.cli_errors import CliError


def resource_quota(name: str, namespace: str = "", *, hard: str = "", scopes: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if hard:
        spec["hard"] = dict(sorted(parse_amounts(hard).items()))
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


command = generator_command(
    "quota",
    click.option("--hard", default="", metavar="RESOURCE=AMOUNT,...", help="Limits of the namespace."),
    click.option("--scopes", default="", metavar="SCOPE,...", help="Scopes that objects must match to be counted."),
    help="Create a resource quota.",
    failure="failed to create quota:",
    aliases=("resourcequota",),
)(resource_quota)
