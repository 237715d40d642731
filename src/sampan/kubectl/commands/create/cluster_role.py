"""`kubectl create clusterrole`: a ClusterRole with rules for resources and URLs, or one that aggregates others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sampan.api.go_compat import gotext
from sampan.kubectl.command_line.flags import string_array_flag, string_slice_flag
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
    check_non_resource_urls,
    check_resources,
    parse_resources,
    policy_rules,
    resolver,
    rule_flags,
    unique_verbs,
)
from sampan.machinery.cli_errors import CliError


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateClusterRoleOptions(NameOptions):
    rules: RuleOptions = rule_flags()
    non_resource_url: tuple[str, ...] = string_slice_flag(
        "--non-resource-url", metavar="PATH,...", help="URLs of a rule; repeatable."
    )
    aggregation_rule: tuple[str, ...] = string_array_flag(
        "--aggregation-rule", metavar="KEY=VALUE,...", help="Labels of the cluster roles whose rules this one combines."
    )
    creation: CreationOptions = creation_flags()


def cluster_role(name: str, options: CreateClusterRoleOptions, resolve: Resolve) -> dict[str, Any]:
    aggregation_labels = _aggregation_labels(options.aggregation_rule)
    non_resource_url, resource_name = options.non_resource_url, options.rules.resource_name
    value = {"kind": "ClusterRole", "apiVersion": f"{RBAC_GROUP}/v1", "metadata": metadata(name)}
    verbs, resources = unique_verbs(options.rules.verb), parse_resources(options.rules.resource)
    if aggregation_labels:
        if non_resource_url or verbs or resources or resource_name:
            raise CliError(
                "aggregation rule must be specified without nonResourceURLs, verbs, resources or resourceNames"
            )
        selectors = [{"matchLabels": dict(sorted(aggregation_labels.items()))}]
        return value | {"rules": None, "aggregationRule": {"clusterRoleSelectors": selectors}}
    if not verbs:
        raise CliError("at least one verb must be specified")
    if not (resources or non_resource_url):
        raise CliError("one of resource or nonResourceURL must be specified")
    if resources:
        check_resources(verbs, resources, resolve)
    if non_resource_url:
        check_non_resource_urls(verbs, non_resource_url)
    return value | {"rules": policy_rules(verbs, resources, resource_name, non_resource_url, resolve)}


def _aggregation_labels(texts: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        for pair in filter(None, text.split(",")):
            key, equals, label = pair.partition("=")
            if not equals:
                flag = '"--aggregation-rule" flag: malformed pair, expect string=string'
                raise CliError(f"invalid argument {gotext.quote(text)} for {flag}")
            pairs[key.strip()] = label.strip()
    return pairs


command = generator_command(
    "clusterrole",
    CreateClusterRoleOptions,
    lambda factory, name, _namespace, options: cluster_role(name, options, resolver(factory)),
    help="Create a cluster role with rules for resources and URLs, or one that combines others.",
)
