"""The rules of a Role or ClusterRole, and their flags: --verb, --resource, --resource-name and --non-resource-url."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from sampan.api.go_compat import gotext
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.flags import flag_group, string_array_flag, string_slice_flag
from sampan.kubectl.commands.create.generator import RBAC_GROUP
from sampan.kubectl.errors import PlainError
from sampan.machinery.cli_errors import CliError

Resolve = Callable[[str, str], tuple[str, str]]
"""Returns the plural name and the API group of a resource, given a resource name and a group ("" for any group). Raises
CliError if the server does not serve the resource."""

_REQUEST_VERBS = ("*", "get", "delete", "list", "create", "update", "patch", "watch", "proxy", "deletecollection")
_NON_RESOURCE_VERBS = frozenset(("*", "get", "post", "put", "delete", "patch", "head", "options"))
_ROLES = frozenset({(RBAC_GROUP, "roles"), (RBAC_GROUP, "clusterroles")})
_SPECIAL_VERBS = {
    "use": frozenset({("policy", "podsecuritypolicies"), ("extensions", "podsecuritypolicies")}),
    "bind": _ROLES,
    "escalate": _ROLES,
    "impersonate": frozenset(
        {("", "users"), ("", "serviceaccounts"), ("", "groups"), ("authentication.k8s.io", "userextras")}
    ),
}
"""Verbs that apply only to certain resources, given as API group and plural name. The server does not serve all of
them."""
_RESOURCE_VERBS = frozenset((*_REQUEST_VERBS, *_SPECIAL_VERBS))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
    verb: tuple[str, ...] = string_slice_flag(
        "--verb", metavar="VERB,...", help="Verbs that the rules allow; repeatable."
    )
    resource: tuple[str, ...] = string_slice_flag(
        "--resource", metavar="RESOURCE[.GROUP][/SUBRESOURCE],...", help="Resources of the rules; repeatable."
    )
    resource_name: tuple[str, ...] = string_array_flag(
        "--resource-name",
        metavar="NAME",
        help="Name of an object to which the rule is restricted; repeatable.",
    )


def rule_flags() -> RuleOptions:
    """Declare --verb, --resource and --resource-name."""
    return flag_group(RuleOptions)


@dataclass(frozen=True, slots=True)
class RuleResource:
    name: str
    group: str = ""
    subresource: str = ""


def unique_verbs(verbs: Sequence[str]) -> list[str]:
    return ["*"] if "*" in verbs else list(dict.fromkeys(verbs))


def parse_resources(texts: Sequence[str]) -> list[RuleResource]:
    """Parse texts of the form resource[.group][/subresource]. A bare * replaces all other resources."""
    resources: list[RuleResource] = []
    for text in texts:
        qualified, _, subresource = text.partition("/")
        name, _, group = qualified.partition(".")
        resource = RuleResource(name, group, subresource)
        if text == "*":
            return [resource]
        resources.append(resource)
    return resources


def check_resources(verbs: Sequence[str], resources: Sequence[RuleResource], resolve: Resolve) -> None:
    """Warn about verbs that are not standard. Raise CliError for a resource that the server does not have and for a
    verb that does not apply to its resource."""
    for verb in verbs:
        if verb not in _RESOURCE_VERBS:
            click.echo(f"Warning: '{verb}' is not a standard resource verb", err=True)
    for resource in resources:
        if not resource.name:
            raise CliError("resource must be specified if apiGroup/subresource specified")
        if resource.name == "*":
            return
        _check_resource(verbs, resource, resolve)


def _check_resource(verbs: Sequence[str], resource: RuleResource, resolve: Resolve) -> None:
    name, group, failure = resource.name, resource.group, None
    try:
        name, group = resolve(resource.name, resource.group)
    except CliError as error:
        failure = error
    for verb in verbs:
        if verb in _SPECIAL_VERBS:
            if (group, name) not in _SPECIAL_VERBS[verb]:
                raise CliError(f"can not perform '{verb}' on '{name}' in group '{group}'")
            failure = None
    if failure is not None:
        raise failure


def check_non_resource_urls(verbs: Sequence[str], urls: Sequence[str]) -> None:
    for verb in verbs:
        if verb not in _NON_RESOURCE_VERBS:
            raise CliError(f"invalid verb: '{verb}' for nonResourceURL")
    for url in urls:
        if url == "*":
            continue
        if not url.startswith("/"):
            raise CliError("nonResourceURL should start with /")
        if "*" in url[:-1]:
            raise CliError("nonResourceURL only supports wildcard matches when '*' is at the end")


def policy_rules(
    verbs: Sequence[str],
    resources: Sequence[RuleResource],
    resource_names: Sequence[str],
    non_resource_urls: Sequence[str],
    resolve: Resolve,
) -> list[dict[str, Any]]:
    """Return one rule per API group, sorted by group, and one for the non-resource URLs."""
    names_of: dict[str, list[str]] = {}
    for resource in resources:
        try:
            name, group = resolve(resource.name, resource.group)
        except CliError:
            name, group = resource.name, resource.group
        name += f"/{resource.subresource}" if resource.subresource else ""
        if name not in names_of.setdefault(group, []):
            names_of[group].append(name)
    rules: list[dict[str, Any]] = []
    for group in sorted(names_of):
        rule: dict[str, Any] = {"verbs": list(verbs), "apiGroups": [group], "resources": names_of[group]}
        rules.append(rule | ({"resourceNames": list(dict.fromkeys(resource_names))} if resource_names else {}))
    if non_resource_urls:
        rules.append({"verbs": list(verbs), "nonResourceURLs": list(dict.fromkeys(non_resource_urls))})
    return rules


def resolver(factory: Factory) -> Resolve:
    """Return a function that looks up resources by API discovery."""

    def resolve(name: str, group: str) -> tuple[str, str]:
        try:
            kind = factory.kinds.find_by_name(f"{name}.{group}" if group else name)
        except CliError:
            scope = f" in group {gotext.quote(group)}" if group else ""
            raise PlainError(f"the server doesn't have a resource type {gotext.quote(name)}{scope}") from None
        return kind.plural, kind.group

    return resolve
