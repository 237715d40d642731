"""The pod and container of a command: NAME, TYPE/NAME of an object that selects pods, and the default container
(kubectl's polymorphichelpers and podcmd)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import click

from sampan.api.go_compat.gotext import quote
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import Session
from sampan.kubectl.errors import KubectlError

_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_SELECTING = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Deployment", "Job"})
_POLL_INTERVAL_S = 0.5

Pod = dict[str, Any]
PodOrder = Callable[[Pod], tuple[Any, ...]]
"""A sort key of pods. The pod that sorts first is chosen."""


def target_object(factory: Factory, word: str) -> Pod:
    """Return the object that a word POD or TYPE/NAME names."""
    kind, slash, name = word.partition("/")
    if not slash:
        kind, name = "pods", word
    elif "/" in name:
        raise KubectlError("arguments in resource/name form may not have more than one slash")
    elif not kind or not name:
        raise KubectlError("arguments in resource/name form must have a single resource and name")
    resource = factory.kinds.find_by_name(kind)
    namespace = factory.namespace if resource.is_namespaced else ""
    value: Pod = factory.session.get(resource.object(namespace, name))
    return {"apiVersion": resource.api_version, "kind": resource.kind, **value}


def pods_of_object(
    session: Session, obj: Pod, action: str, order: PodOrder, *, timeout_s: float
) -> tuple[list[Pod], bool]:
    """Return the pods that an object selects, the best one first, and whether the object is itself a pod. Wait for a
    pod if there is none."""
    if obj.get("kind") == "Pod":
        return [obj], True
    namespace, selector = obj["metadata"].get("namespace", ""), selector_of(obj, action)
    path, deadline = f"/api/v1/namespaces/{namespace}/pods", time.monotonic() + timeout_s
    while True:
        pods = session.get(path, {"labelSelector": selector}).get("items") or []
        if pods:
            return sorted(pods, key=order), False
        if time.monotonic() >= deadline:
            raise KubectlError("timed out waiting for the condition")
        time.sleep(_POLL_INTERVAL_S)


def attachable_pod(factory: Factory, word: str, *, timeout_s: float) -> Pod:
    """Return the pod for exec, attach and port-forward."""
    obj = target_object(factory, word)
    return pods_of_object(factory.session, obj, "attach to", activity_order, timeout_s=timeout_s)[0][0]


def selector_of(obj: Mapping[str, Any], action: str) -> str:
    """Return the label selector of an object's pods."""
    kind, spec = obj.get("kind"), obj.get("spec") or {}
    if kind == "Service":
        if not spec.get("selector"):
            name = obj["metadata"]["name"]
            raise KubectlError(
                f"cannot {action} *v1.Service: invalid service '{name}': Service is defined without a selector"
            )
        return label_text(spec["selector"])
    if kind not in _SELECTING:
        type_name = f"*{str(obj.get('apiVersion', '')).rpartition('/')[2]}.{kind}"
        raise KubectlError(f"cannot {action} {type_name}: selector for {type_name} not implemented")
    selector = spec.get("selector") or {}
    if kind == "ReplicationController":
        return label_text(selector)
    terms = [label_text(selector.get("matchLabels") or {}), *map(_expression, selector.get("matchExpressions") or ())]
    return ",".join(term for term in terms if term)


def label_text(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _expression(expression: Mapping[str, Any]) -> str:
    key, values = str(expression["key"]), ",".join(expression.get("values") or ())
    forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}"}
    return forms[str(expression["operator"])]


# -- order -----------------------------------------------------------------------------------------------------------


def logging_order(pod: Pod) -> tuple[Any, ...]:
    """Return a sort key for pods whose logs are to be shown: first pods that are assigned, running, ready for long,
    restarted often, old."""
    return (*_state(pod), -_restarts(pod), pod["metadata"].get("creationTimestamp") or "~")


def activity_order(pod: Pod) -> tuple[Any, ...]:
    """Return a sort key for the most active pods: first pods that are assigned, running, ready, not being deleted,
    restarted seldom, old."""
    assigned, phase, ready, ready_time = _state(pod)
    deletion = pod["metadata"].get("deletionTimestamp")
    created = pod["metadata"].get("creationTimestamp") or "~"
    return assigned, phase, ready, deletion is not None, ready_time, _restarts(pod), created


def _state(pod: Pod) -> tuple[bool, int, bool, str]:
    status = pod.get("status") or {}
    phases = {"Running": 0, "Unknown": 1, "Pending": 2}
    conditions = [entry for entry in status.get("conditions") or () if entry.get("type") == "Ready"]
    ready = conditions[0] if conditions and conditions[0].get("status") == "True" else None
    phase = phases.get(str(status.get("phase")), 0)
    ready_time = (ready or {}).get("lastTransitionTime") or "~"
    return not (pod.get("spec") or {}).get("nodeName"), phase, ready is None, ready_time


def _restarts(pod: Pod) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((int(status.get("restartCount", 0)) for status in statuses), default=0)


# -- containers ------------------------------------------------------------------------------------------------------


def container_names(pod: Mapping[str, Any], *fields: str) -> list[str]:
    """Return the names of the containers in the given fields of the pod spec, such as `initContainers`."""
    spec = pod.get("spec") or {}
    return [str(container["name"]) for field in fields for container in spec.get(field) or ()]


def all_container_names(pod: Mapping[str, Any]) -> str:
    names = container_names(pod, "containers")
    names += [f"{name} (ephem)" for name in container_names(pod, "ephemeralContainers")]
    names += [f"{name} (init)" for name in container_names(pod, "initContainers")]
    return ", ".join(names)


def check_container(pod: Mapping[str, Any], name: str) -> str:
    """Return the name of a container. Raise KubectlError if the pod has no such container."""
    if name not in container_names(pod, "containers", "initContainers", "ephemeralContainers"):
        pod_name = pod["metadata"]["name"]
        name = name if name.isprintable() else quote(name)  # an annotation of the pod may have the name
        raise KubectlError(f"container {name} is not valid for pod {pod_name} out of: {all_container_names(pod)}")
    return name


def annotated_container(pod: Mapping[str, Any]) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER, ""))


def default_container(pod: Mapping[str, Any], requested: str = "", *, is_quiet: bool = False) -> str:
    """Return the requested container, or that of the annotation, or the first one. In the last case, print which
    container was chosen if the pod has several."""
    if requested := requested or annotated_container(pod):
        return check_container(pod, requested)
    names = container_names(pod, "containers")
    if not names:
        metadata = pod["metadata"]
        raise KubectlError(f"pod {metadata.get('namespace')}/{metadata['name']} does not have any containers")
    print_default_container(pod, names[0], is_quiet=is_quiet)
    return names[0]


def print_default_container(pod: Mapping[str, Any], name: str, *, is_quiet: bool) -> None:
    if not is_quiet and len(container_names(pod, "containers", "initContainers", "ephemeralContainers")) > 1:
        click.echo(f'Defaulted container "{name}" out of: {all_container_names(pod)}', err=True)
