"""Builders of valid objects, for tests that care about only a few fields.

Each builder returns a new object, which the test may change. `namespace` may be empty if the client sets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from sampan.api.codec import json
from sampan.api.types.apps_v1 import Deployment, DeploymentSpec
from sampan.api.types.core_v1 import (
    ConfigMap,
    Container,
    Namespace,
    Node,
    Pod,
    PodSpec,
    PodTemplateSpec,
    Secret,
    Service,
    ServiceAccount,
    ServicePort,
    ServiceSpec,
)
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta

IMAGE = "registry.k8s.io/pause:3.10"

Labels = Mapping[str, str]


def namespace(name: str, *, labels: Labels | None = None) -> Namespace:
    return Namespace(metadata=_metadata(name, "", labels))


def config_map(
    name: str, data: Mapping[str, str] | None = None, *, namespace: str = "", labels: Labels | None = None
) -> ConfigMap:
    return ConfigMap(metadata=_metadata(name, namespace, labels), data=dict(data or {}))


def secret(
    name: str, data: Mapping[str, bytes] | None = None, *, namespace: str = "", labels: Labels | None = None
) -> Secret:
    """Return a Secret; `data` is the plain content, not base64."""
    return Secret(metadata=_metadata(name, namespace, labels), data=dict(data or {}))


def service_account(name: str, *, namespace: str = "", labels: Labels | None = None) -> ServiceAccount:
    return ServiceAccount(metadata=_metadata(name, namespace, labels))


def node(name: str, *, labels: Labels | None = None) -> Node:
    return Node(metadata=_metadata(name, "", labels))


def pod(name: str, *, image: str = IMAGE, node: str = "", namespace: str = "", labels: Labels | None = None) -> Pod:
    """Return a pod with one container, named `main`."""
    return Pod(metadata=_metadata(name, namespace, labels), spec=PodSpec(containers=[_main(image)], nodeName=node))


def deployment(
    name: str, *, replicas: int = 1, image: str = IMAGE, namespace: str = "", labels: Labels | None = None
) -> Deployment:
    """Return a Deployment of pods with the label `app: NAME`."""
    selected = {"app": name}
    template = PodTemplateSpec(metadata=ObjectMeta(labels=dict(selected)), spec=PodSpec(containers=[_main(image)]))
    spec = DeploymentSpec(replicas=replicas, selector=LabelSelector(matchLabels=selected), template=template)
    return Deployment(metadata=_metadata(name, namespace, labels), spec=spec)


def service(
    name: str,
    *,
    port: int = 80,
    selector: Labels | None = None,
    type: str = "ClusterIP",
    namespace: str = "",
    labels: Labels | None = None,
) -> Service:
    """Return a Service that selects pods with the label `app: NAME` by default."""
    selected = dict(selector if selector is not None else {"app": name})
    spec = ServiceSpec(type=type, selector=selected, ports=[ServicePort(port=port)])
    return Service(metadata=_metadata(name, namespace, labels), spec=spec)


def manifest(obj: Any) -> dict[str, Any]:
    """Return the object as a plain value, for other client libraries and YAML files."""
    value: dict[str, Any] = msgspec.json.decode(json.encode(obj))
    return value


def _metadata(name: str, namespace: str, labels: Labels | None) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, labels=dict(labels or {}))


def _main(image: str) -> Container:
    return Container(name="main", image=image)
