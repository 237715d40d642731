"""`kubectl create clusterrole`: a ClusterRole with rules for resources and URLs, or one that aggregates others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from sampan.api.go_compat import gotext
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.flag_parser import STRING_SLICE
from sampan.kubectl.commands.create.generator import RBAC_GROUP, generator_command, metadata
from sampan.kubectl.commands.create.policy_rules import (
    Resolve,
    check_non_resource_urls,
    check_resources,
    parse_resources,
    policy_rules,
    resolver,
    rule_options,
    unique_verbs,
)
from sampan.machinery.cli_errors import CliError


def cluster_role(
    name: str,
    *,
    verb: Sequence[str] = (),
    resource: Sequence[str] = (),
    resource_name: Sequence[str] = (),
    non_resource_url: Sequence[str] = (),
    aggregation_rule: Mapping[str, str] | None = None,
    resolve: Resolve,
) -> dict[str, Any]:
    value = {"kind": "ClusterRole", "apiVersion": f"{RBAC_GROUP}/v1", "metadata": metadata(name)}
    verbs, resources = unique_verbs(verb), parse_resources(resource)
    if aggregation_rule:
        if non_resource_url or verbs or resources or resource_name:
            raise CliError(
                "aggregation rule must be specified without nonResourceURLs, verbs, resources or resourceNames"
            )
        selectors = [{"matchLabels": dict(sorted(aggregation_rule.items()))}]
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


def _generate(name: str, _namespace: str, factory: Factory, **flags: Any) -> dict[str, Any]:
    pairs: dict[str, str] = {}
    for text in flags.pop("aggregation_rule"):
        for pair in filter(None, text.split(",")):
            key, equals, label = pair.partition("=")
            if not equals:
                flag = '"--aggregation-rule" flag: malformed pair, expect string=string'
                raise CliError(f"invalid argument {gotext.quote(text)} for {flag}")
            pairs[key.strip()] = label.strip()
    return cluster_role(name, **flags, aggregation_rule=pairs, resolve=resolver(factory))


command = generator_command(
    "clusterrole",
    rule_options(),
    click.option(
        "--non-resource-url", multiple=True, type=STRING_SLICE, metavar="PATH,...", help="URLs of a rule; repeatable."
    ),
    click.option(
        "--aggregation-rule",
        multiple=True,
        metavar="KEY=VALUE,...",
        help="Labels of the cluster roles whose rules this one combines.",
    ),
    help="Create a cluster role with rules for resources and URLs, or one that combines others.",
    needs_factory=True,
)(_generate)
