"""Parts of the objects that generators share: metadata, containers, label selectors, rules of references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sampan.cli.failures import CliError

RBAC_GROUP = "rbac.authorization.k8s.io"


def metadata(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    """Return an object's metadata without empty fields."""
    fields = {"name": name, "namespace": namespace, **more}
    return {key: value for key, value in fields.items() if value}


def container(name: str, image: str, command: Sequence[str] = (), ports: Sequence[int] = ()) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": name, "image": image}
    if command:
        fields["command"] = list(command)
    if ports:
        fields["ports"] = [{"containerPort": port} for port in ports]
    return fields | {"resources": {}}


def subjects(users: Sequence[str], groups: Sequence[str], service_accounts: Sequence[str]) -> list[dict[str, str]]:
    """Return the subjects of a role binding. A service account has the form namespace:name."""
    result = [{"kind": "User", "apiGroup": RBAC_GROUP, "name": user} for user in users]
    result += [{"kind": "Group", "apiGroup": RBAC_GROUP, "name": group} for group in groups]
    for account in service_accounts:
        parts = account.split(":")
        if len(parts) != 2 or not all(parts):
            raise CliError("serviceaccount must be <namespace>:<name>")
        result.append({"kind": "ServiceAccount", "name": parts[1], "namespace": parts[0]})
    return result


def label_selector(text: str) -> dict[str, Any]:
    """Return the LabelSelector of a selector's text: equalities as matchLabels, the rest as matchExpressions."""
    from sampan.api import labels
    from sampan.api.label_grammar import SelectorError
    from sampan.api.label_requirement import Operator

    try:
        requirements = labels.parse(text).requirements
    except SelectorError as error:
        raise CliError(f'couldn\'t parse the selector string "{text}": {error}') from None
    operators = {
        Operator.IN: "In",
        Operator.NOT_IN: "NotIn",
        Operator.EXISTS: "Exists",
        Operator.DOES_NOT_EXIST: "DoesNotExist",
    }
    match_labels: dict[str, str] = {}
    expressions: list[dict[str, Any]] = []
    for requirement in requirements:
        if requirement.operator in (Operator.EQUALS, Operator.DOUBLE_EQUALS):
            match_labels[requirement.key] = requirement.values[0]
        elif requirement.operator not in operators:
            raise CliError(f'"{requirement.operator.value}" isn\'t supported in label selectors')
        else:
            values = {"values": sorted(requirement.values)} if requirement.values else {}
            expressions.append({"key": requirement.key, "operator": operators[requirement.operator], **values})
    fields = {"matchLabels": match_labels, "matchExpressions": expressions}
    return {key: value for key, value in fields.items() if value}
