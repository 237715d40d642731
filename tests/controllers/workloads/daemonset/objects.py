"""Builders of DaemonSets, nodes and pods."""

from collections.abc import Mapping
from typing import Any

from sampan.api.codec import json
from sampan.api.types.apps_v1 import DaemonSet
from sampan.api.types.core_v1 import Node, Pod
from sampan.api.values import times
from sampan.controllers.workloads.daemonset.nodes import HASH_LABEL

NOW = 1_767_225_600.0
LABELS = {"app": "logs"}


def daemon_set(
    *,
    image: str = "one",
    strategy: str = "RollingUpdate",
    unavailable: int | str = 1,
    surge: int | str = 0,
    min_ready: int = 0,
    limit: int = 10,
    spec: Mapping[str, Any] | None = None,
    **meta: Any,
) -> DaemonSet:
    """A DaemonSet; `spec` has further fields of the pod spec."""
    rolling = {"maxUnavailable": unavailable, "maxSurge": surge}
    update = {"type": strategy, "rollingUpdate": rolling} if strategy == "RollingUpdate" else {"type": strategy}
    template = {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [{"name": "c", "image": image}], **(spec or {})},
    }
    value = {
        "metadata": {"name": "logs", "namespace": "default", **meta},
        "spec": {
            "selector": {"matchLabels": LABELS},
            "template": template,
            "updateStrategy": update,
            "minReadySeconds": min_ready,
            "revisionHistoryLimit": limit,
        },
    }
    return json.from_value(value, DaemonSet)


def node(name: str, *, labels: Mapping[str, str] | None = None, taints: tuple[str, ...] = ()) -> Node:
    """A node; a taint is written `key=value:effect` or `key:effect`."""
    node_taints = []
    for taint in taints:
        key, _, effect = taint.rpartition(":")
        key, _, value = key.partition("=")
        node_taints.append({"key": key, "value": value, "effect": effect})
    return json.from_value(
        {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": {"taints": node_taints}}, Node
    )


def pod(
    name: str,
    on: str = "",
    *,
    target: str = "",
    hash: str = "new",
    phase: str = "Running",
    ready_for_s: float | None = 100,
    age_s: float = 0,
    is_deleted: bool = False,
) -> Pod:
    conditions = []
    if ready_for_s is not None and phase == "Running":
        since = times.format_time(NOW - ready_for_s)
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    field = {"key": "metadata.name", "operator": "In", "values": [target]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]} if target else None
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}} if required else None
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "labels": {**LABELS, HASH_LABEL: hash},
        "creationTimestamp": times.format_time(NOW - age_s),
    }
    if is_deleted:
        meta["deletionTimestamp"] = times.format_time(NOW)
    value = {
        "metadata": meta,
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": on, "affinity": affinity},
        "status": {"phase": phase, "conditions": conditions},
    }
    return json.from_value(value, Pod)
