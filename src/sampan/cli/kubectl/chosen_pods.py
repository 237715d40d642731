"""Select the pod and container of a command from NAME, pod/NAME, or an object that selects pods, like deploy/NAME."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from sampan.cli.failures import CliError
from sampan.cli.kubectl.kinds import ResourceTypes
from sampan.cli.kubectl.session import Session

_DEFAULT = "kubectl.kubernetes.io/default-container"

Value = dict[str, Any]


def chosen_pod(session: Session, word: str) -> Value:
    kind, slash, name = word.partition("/")
    if not slash:
        return pod(session, word)
    resource = ResourceTypes(session).named(kind)
    if (resource.group, resource.plural) == ("", "pods"):
        return pod(session, name)
    owner = session.get(resource.object(session.namespace, name))
    pods = pods_of(session, selector_of(owner, word))
    if not pods:
        raise CliError(f"no pods found for {word}")
    return sorted(pods, key=_rank)[0]


def pod(session: Session, name: str) -> Value:
    value: Value = session.get(f"/api/v1/namespaces/{session.namespace}/pods/{name}")
    return value


def pods_of(session: Session, selector: str) -> list[Value]:
    response = session.get(f"/api/v1/namespaces/{session.namespace}/pods", {"labelSelector": selector})
    return list(response.get("items") or [])


def selector_of(owner: Mapping[str, Any], word: str) -> str:
    selector = (owner.get("spec") or {}).get("selector") or {}
    labels = (
        selector.get("matchLabels", {}) if "matchLabels" in selector or "matchExpressions" in selector else selector
    )
    terms = [f"{key}={value}" for key, value in labels.items()]
    terms += [_expression(expression) for expression in selector.get("matchExpressions") or ()]
    if not terms:
        raise CliError(f"cannot attach to {word}: selector for it not implemented")
    return ",".join(terms)


def _expression(pod: Mapping[str, Any]) -> str:
    key, values = str(pod["key"]), ",".join(pod.get("values") or ())
    forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}"}
    return forms[str(pod["operator"])]


def _rank(pod: Mapping[str, Any]) -> tuple[bool, bool, str]:
    """Return a sort key that puts pods which are running and ready first, and older ones before newer ones."""
    status = pod.get("status") or {}
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in status.get("conditions") or ()
    )
    return status.get("phase") != "Running", not ready, pod["metadata"].get("creationTimestamp") or ""


def container_names(pod: Mapping[str, Any]) -> list[str]:
    """Return the names of all containers in the order of kubectl: containers, ephemeral containers, init containers."""
    spec = pod["spec"]
    every = (
        *(spec.get("containers") or ()),
        *(spec.get("ephemeralContainers") or ()),
        *(spec.get("initContainers") or ()),
    )
    return [container["name"] for container in every]


def chosen_container(pod: Mapping[str, Any], requested: str, *, is_quiet: bool = False) -> str:
    names, name = container_names(pod), pod["metadata"]["name"]
    if requested:
        if requested not in names:
            raise CliError(f"container {requested} not found in pod {name}_{pod['metadata']['namespace']}")
        return requested
    wished = str((pod["metadata"].get("annotations") or {}).get(_DEFAULT, ""))
    if wished in names:
        return wished
    plain = [str(container["name"]) for container in pod["spec"]["containers"]]
    if len(names) > 1 and not is_quiet:
        click.echo(f'Defaulted container "{plain[0]}" out of: {_listed(pod)}', err=True)
    return plain[0]


def _listed(pod: Mapping[str, Any]) -> str:
    spec = pod["spec"]
    parts = [container["name"] for container in spec.get("containers") or ()]
    parts += [f"{container['name']} (ephem)" for container in spec.get("ephemeralContainers") or ()]
    parts += [f"{container['name']} (init)" for container in spec.get("initContainers") or ()]
    return ", ".join(parts)


def pod_and_rest(words: Sequence[str]) -> tuple[str, list[str]]:
    if not words:
        raise CliError("pod, type/name or --filename must be specified")
    return words[0], list(words[1:])
