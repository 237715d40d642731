"""The pods of a workload or service, and why it may have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.kubectl.client.session import Session
from sampan.machinery.cli_errors import CliError

Object = Mapping[str, Any]


def selector_text(obj: Object) -> str:
    """Return the label selector of the object's pods in the syntax of a query parameter."""
    selector = obj.get("spec", {}).get("selector")
    if not selector:
        kind = obj.get("kind", "it")
        raise CliError(f"{kind.lower()}/{obj['metadata']['name']}: it has no selector, so its pods are unknown")
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return ",".join(f"{key}={value}" for key, value in selector.items())
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    return ",".join([*parts, *(_expression(expression) for expression in selector.get("matchExpressions") or ())])


def _expression(requirement: Object) -> str:
    key, operator, values = requirement["key"], requirement["operator"], ",".join(requirement.get("values") or ())
    match operator:
        case "Exists":
            return str(key)
        case "DoesNotExist":
            return f"!{key}"
        case "In":
            return f"{key} in ({values})"
    return f"{key} notin ({values})"


def pods_of(session: Session, obj: Object) -> list[dict[str, Any]]:
    query = {"labelSelector": selector_text(obj)}
    namespace = obj["metadata"].get("namespace")
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    items: list[dict[str, Any]] = session.get(path, query)["items"] or []
    return items


def problem_conditions(obj: Object) -> list[str]:
    """Return the conditions of the object that report a problem."""
    bad = {
        "ReplicaFailure": "True",
        "Progressing": "False",
        "Available": "False",
        "Failed": "True",
        "Suspended": "True",
    }
    return [
        f"{condition['type']}={condition['status']}: {condition.get('message') or condition.get('reason', '')}"
        for condition in obj.get("status", {}).get("conditions") or ()
        if bad.get(condition["type"]) == condition["status"]
    ]
