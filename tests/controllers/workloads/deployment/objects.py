"""Builders of Deployments and their ReplicaSets."""

from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.api.types.core_v1 import Pod
from sampan.api.values import times
from sampan.controllers.workloads.deployment.replicasets import (
    DESIRED_REPLICAS_ANNOTATION,
    MAX_REPLICAS_ANNOTATION,
    REVISION,
)
from tests.controllers.ownership.objects import NOW, reference

LABELS = {"app": "web"}


def template(image: str = "i:1", hash: str = "") -> dict[str, Any]:
    labels = {**LABELS, "pod-template-hash": hash} if hash else LABELS
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}


def deployment(
    replicas: int = 10,
    *,
    image: str = "i:1",
    surge: int | str = "25%",
    unavailable: int | str = "25%",
    strategy: str = "RollingUpdate",
    deadline: int | None = 600,
    annotations: dict[str, str] | None = None,
    generation: int = 1,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> Deployment:
    update = {"maxSurge": surge, "maxUnavailable": unavailable}
    value = {
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "d",
            "generation": generation,
            "annotations": annotations or {},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": template(image),
            "strategy": {"type": strategy, **({"rollingUpdate": update} if strategy == "RollingUpdate" else {})},
            "revisionHistoryLimit": 10,
            **({} if deadline is None else {"progressDeadlineSeconds": deadline}),
            **spec,
        },
        "status": status or {},
    }
    return codec.from_value(value, Deployment)


def replica_set(
    name: str,
    replicas: int,
    *,
    image: str = "i:0",
    available: int | None = None,
    pods: int | None = None,
    revision: int | str | None = 1,
    desired: int | None = None,
    most: int | None = None,
    age_s: int = 100,
    **status: Any,
) -> ReplicaSet:
    """A ReplicaSet whose pods are all available, unless `available` is given."""
    annotations = {REVISION: revision, DESIRED_REPLICAS_ANNOTATION: desired, MAX_REPLICAS_ANNOTATION: most}
    available = replicas if available is None else available
    counts = {
        "replicas": replicas if pods is None else pods,
        "readyReplicas": available,
        "availableReplicas": available,
    }
    value = {
        "metadata": {
            "name": f"web-{name}",
            "namespace": "default",
            "uid": name,
            "creationTimestamp": times.format_time(NOW - age_s),
            "annotations": {key: str(text) for key, text in annotations.items() if text is not None},
            "ownerReferences": [reference("d", kind="Deployment")],
            "labels": {**LABELS, "pod-template-hash": name},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {**LABELS, "pod-template-hash": name}},
            "template": template(image, name),
        },
        "status": {"observedGeneration": 1, "terminatingReplicas": 0, **counts, **status},
    }
    return codec.from_value(value, ReplicaSet)


def no_pods(sets: Any) -> list[Pod]:
    return []
