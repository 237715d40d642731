"""Objects from builders are valid: the API server accepts them unchanged."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from sampan.api.types.base import Object
from sampan.testing import Cluster, builders

NAMESPACED: list[Callable[[str], Any]] = [
    builders.config_map,
    builders.deployment,
    builders.pod,
    builders.secret,
    builders.service,
    builders.service_account,
]


@pytest.mark.parametrize("build", NAMESPACED, ids=lambda build: build.__name__)
def test_namespaced_object_is_accepted(
    sampan_cluster: Cluster, sampan_namespace: str, build: Callable[[str], Any]
) -> None:
    built = build("mine")
    created = sampan_cluster.run(sampan_cluster.client.for_kind(type(built)).create(built, sampan_namespace))
    assert created.metadata.uid


@pytest.mark.parametrize("build", [builders.namespace, builders.node], ids=["namespace", "node"])
def test_cluster_scoped_object_is_accepted(
    sampan_cluster: Cluster, sampan_namespace: str, build: Callable[[str], Object]
) -> None:
    built = build(f"{sampan_namespace}-more")
    client = sampan_cluster.client.for_kind(type(built))
    assert sampan_cluster.run(client.create(built)).metadata.uid  # type: ignore[attr-defined]
    sampan_cluster.run(client.delete(f"{sampan_namespace}-more"))


def test_arguments_set_the_fields_of_the_object() -> None:
    pod = builders.pod("web", image="nginx", node="n1", namespace="ns", labels={"app": "web"})
    assert (pod.metadata.name, pod.metadata.namespace, pod.metadata.labels) == ("web", "ns", {"app": "web"})
    assert [container.image for container in pod.spec.containers or ()] == ["nginx"]
    assert pod.spec.nodeName == "n1"
    service = builders.service("web", port=8080, selector={"a": "b"}, type="NodePort")
    assert (service.spec.ports[0].port, service.spec.selector, service.spec.type) == (8080, {"a": "b"}, "NodePort")
    assert builders.deployment("web", replicas=3).spec.replicas == 3


def test_objects_do_not_share_labels() -> None:
    labels = {"app": "web"}
    first, other = builders.pod("a", labels=labels), builders.pod("b", labels=labels)
    first.metadata.labels["more"] = "x"
    assert other.metadata.labels == labels == {"app": "web"}


def test_manifest_contains_only_plain_values() -> None:
    value = builders.manifest(builders.secret("password", {"a": b"\xff"}, labels={"x": "y"}))
    assert value["kind"] == "Secret"
    assert value["data"] == {"a": "/w=="}
    assert yaml.safe_load(yaml.safe_dump(value)) == value
