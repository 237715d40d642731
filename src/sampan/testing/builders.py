"""Builders: objects that have what they must have, for tests that care about a field or two.

Each gives a fresh object that the test may change. `namespace` may be left to the client.
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
    """`data` is what the secret holds, not base64."""
    return Secret(metadata=_metadata(name, namespace, labels), data=dict(data or {}))


def service_account(name: str, *, namespace: str = "", labels: Labels | None = None) -> ServiceAccount:
    return ServiceAccount(metadata=_metadata(name, namespace, labels))


def node(name: str, *, labels: Labels | None = None) -> Node:
    return Node(metadata=_metadata(name, "", labels))


def pod(name: str, *, image: str = IMAGE, node: str = "", namespace: str = "", labels: Labels | None = None) -> Pod:
    """A pod of one container, called `main`."""
    return Pod(metadata=_metadata(name, namespace, labels), spec=PodSpec(containers=[_main(image)], nodeName=node))


def deployment(
    name: str, *, replicas: int = 1, image: str = IMAGE, namespace: str = "", labels: Labels | None = None
) -> Deployment:
    """Of pods with the label `app: NAME`."""
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
    """Of pods with the label `app: NAME` unless told otherwise."""
    selected = dict(selector if selector is not None else {"app": name})
    spec = ServiceSpec(type=type, selector=selected, ports=[ServicePort(port=port)])
    return Service(metadata=_metadata(name, namespace, labels), spec=spec)


def manifest(obj: Any) -> dict[str, Any]:
    """The object as a plain value, as other client libraries and YAML files want it."""
    value: dict[str, Any] = msgspec.json.decode(json.encode(obj))
    return value


def _metadata(name: str, namespace: str, labels: Labels | None) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, labels=dict(labels or {}))


def _main(image: str) -> Container:
    return Container(name="main", image=image)
