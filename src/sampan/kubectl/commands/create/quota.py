"""`kubectl create quota`: a ResourceQuota from --hard and --scopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.command_line.flags import string_flag
from sampan.kubectl.command_line.pairs import parse_amounts
from sampan.kubectl.commands.create.generator import (
    CreationOptions,
    NameOptions,
    creation_flags,
    generator_command,
    metadata,
    pure,
)
from sampan.machinery.cli_errors import CliError


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateQuotaOptions(NameOptions):
    hard: str = string_flag("--hard", metavar="RESOURCE=AMOUNT,...", help="Limits of the namespace.")
    scopes: str = string_flag("--scopes", metavar="SCOPE,...", help="Scopes that objects must match to be counted.")
    creation: CreationOptions = creation_flags()


def resource_quota(name: str, namespace: str, options: CreateQuotaOptions) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if options.hard:
        spec["hard"] = dict(sorted(parse_amounts(options.hard, error="Invalid argument syntax").items()))
    if options.scopes:
        spec["scopes"] = options.scopes.split(",")
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
    CreateQuotaOptions,
    pure(resource_quota),
    help="Create a resource quota.",
    failure="failed to create quota:",
    aliases=("resourcequota",),
)
