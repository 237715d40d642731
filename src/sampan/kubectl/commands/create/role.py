"""`kubectl create role`: a Role with rules for resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sampan.kubectl.commands.create.generator import RBAC_GROUP, generator_command, metadata
from sampan.kubectl.commands.create.policy_rules import (
    Resolve,
    check_resources,
    parse_resources,
    policy_rules,
    resolver,
    rule_options,
    unique_verbs,
)
from sampan.machinery.cli_errors import CliError


def role(
    name: str,
    namespace: str = "",
    *,
    verb: Sequence[str],
    resource: Sequence[str],
    resource_name: Sequence[str] = (),
    resolve: Resolve,
) -> dict[str, Any]:
    verbs, resources = unique_verbs(verb), parse_resources(resource)
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
        "rules": policy_rules(verbs, resources, resource_name, (), resolve),
    }


command = generator_command(
    "role",
    rule_options(),
    help="Create a role with rules for resources.",
    needs_factory=True,
)(lambda name, namespace, factory, **flags: role(name, namespace, **flags, resolve=resolver(factory)))
