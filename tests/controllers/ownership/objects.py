"""Builders of owners and pods."""

from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.apps_v1 import ReplicaSet
from sampan.api.types.core_v1 import Pod
from sampan.api.values import times

NOW = 1_767_225_600.0
LABELS = {"app": "web"}


def owner(name: str = "web", uid: str = "owner-uid", **metadata: Any) -> ReplicaSet:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    value = {
        "metadata": {"name": name, "namespace": "default", "uid": uid, **metadata},
        "spec": {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template},
    }
    return codec.from_value(value, ReplicaSet)


def reference(uid: str = "owner-uid", name: str = "web", kind: str = "ReplicaSet") -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod(
    name: str,
    *,
    node: str = "",
    phase: str = "Running",
    ready_for_s: float | None = None,
    age_s: float | None = None,
    owned_by: str | None = None,
    restarts: int = 0,
    labels: dict[str, str] | None = None,
    **metadata: Any,
) -> Pod:
    conditions = []
    if ready_for_s is not None:
        since = times.format_time(NOW - ready_for_s)
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "labels": LABELS if labels is None else labels,
    }
    if age_s is not None:
        meta["creationTimestamp"] = times.format_time(NOW - age_s)
    if owned_by is not None:
        meta["ownerReferences"] = [reference(owned_by)]
    status = {"name": "c", "restartCount": restarts, "ready": True, "image": "i", "imageID": "i"}
    value = {
        "metadata": {**meta, **metadata},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": node},
        "status": {"phase": phase, "conditions": conditions, "containerStatuses": [status]},
    }
    return codec.from_value(value, Pod)
