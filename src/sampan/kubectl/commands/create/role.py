"""`kubectl create role`: a Role with rules for resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.commands.create.generator import (
    RBAC_GROUP,
    CreationOptions,
    NameOptions,
    creation_flags,
    generator_command,
    metadata,
)
from sampan.kubectl.commands.create.policy_rules import (
    Resolve,
    RuleOptions,
    check_resources,
    parse_resources,
    policy_rules,
    resolver,
    rule_flags,
    unique_verbs,
)
from sampan.machinery.cli_errors import CliError


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRoleOptions(NameOptions):
    rules: RuleOptions = rule_flags()
    creation: CreationOptions = creation_flags()


def role(name: str, namespace: str, options: CreateRoleOptions, resolve: Resolve) -> dict[str, Any]:
    verbs, resources = unique_verbs(options.rules.verb), parse_resources(options.rules.resource)
    if not verbs:
        raise CliError("at least one verb must be specified")
    if not resources:
        check_resources(verbs, (), resolve)
        raise CliError("at least one resource must be specified")
    check_resources(verbs, resources, resolve)
    return {
        "kind": "Role",
        "apiVersion": f"{RBAC_GROUP}/v1",
        "metadata": metadata(name, namespace),
        "rules": policy_rules(verbs, resources, options.rules.resource_name, (), resolve),
    }


command = generator_command(
    "role",
    CreateRoleOptions,
    lambda factory, name, namespace, options: role(name, namespace, options, resolver(factory)),
    help="Create a role with rules for resources.",
)
