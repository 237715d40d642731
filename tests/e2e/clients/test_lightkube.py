"""The package `lightkube`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lightkube import ApiError, Client, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Pod
from lightkube.types import PatchType


@pytest.fixture
def client(sampan_kubeconfig: Path) -> Iterator[Client]:
    with Client(KubeConfig.from_file(str(sampan_kubeconfig))) as client:
        yield client


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, labels={"kind-of": "test"}), data=data)


def test_config_map_lifecycle(client: Client) -> None:
    client.create(config_map("settings", color="red"))
    stored_config_map = client.get(ConfigMap, "settings")
    assert stored_config_map.data == {"color": "red"}
    stored_config_map.data["size"] = "small"
    assert client.replace(stored_config_map).data == {"color": "red", "size": "small"}
    client.delete(ConfigMap, "settings")
    with pytest.raises(ApiError) as refused:
        client.get(ConfigMap, "settings")
    assert refused.value.status.code == 404


@pytest.mark.parametrize(
    ("type", "patch"),
    [
        (PatchType.STRATEGIC, {"data": {"color": None}}),
        (PatchType.MERGE, {"data": {"color": None}}),
        (PatchType.JSON, [{"op": "remove", "path": "/data/color"}]),
    ],
    ids=["strategic", "merge", "json"],
)
def test_patch(client: Client, type: PatchType, patch: Any) -> None:
    client.create(config_map("settings", color="red", size="small"))
    patched = client.patch(ConfigMap, "settings", patch, patch_type=type)
    assert patched.data == {"size": "small"}


def test_list_in_pages(client: Client) -> None:
    for number in range(5):
        client.create(config_map(f"map-{number}"))
    listed = client.list(ConfigMap, labels={"kind-of": "test"}, chunk_size=2)
    assert [config_map.metadata.name for config_map in listed if config_map.metadata] == [
        f"map-{number}" for number in range(5)
    ]


def test_watch(client: Client) -> None:
    client.create(config_map("settings", color="red"))
    types = []
    for event, obj in client.watch(ConfigMap, fields={"metadata.name": "settings"}):
        types.append((event, obj.data))
        if event == "ADDED":
            client.patch(ConfigMap, "settings", {"data": {"color": "blue"}})
        elif event == "MODIFIED":
            client.delete(ConfigMap, "settings")
        else:
            break
    assert types == [("ADDED", {"color": "red"}), ("MODIFIED", {"color": "blue"}), ("DELETED", {"color": "blue"})]


def test_delete_collection(client: Client) -> None:
    for number in range(3):
        client.create(config_map(f"map-{number}"))
    client.deletecollection(ConfigMap)
    assert list(client.list(ConfigMap, labels={"kind-of": "test"})) == []


def test_created_pod_is_pending(client: Client) -> None:
    pod = Pod(metadata=ObjectMeta(name="web"), spec=PodSpec(containers=[Container(name="main", image="nginx")]))
    created_pod = client.create(pod)
    assert created_pod.status is not None
    assert created_pod.status.phase == "Pending"


def test_deployments(client: Client) -> None:
    labels = {"app": "web"}
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="main", image="nginx")])
    )
    spec = DeploymentSpec(selector=LabelSelector(matchLabels=labels), template=template)
    client.create(Deployment(metadata=ObjectMeta(name="web"), spec=spec))
    assert [deployment.metadata.name for deployment in client.list(Deployment) if deployment.metadata] == ["web"]


def test_generic_resource(client: Client) -> None:
    Plain = create_namespaced_resource("coordination.k8s.io", "v1", "Lease", "leases")
    client.create(Plain(metadata=ObjectMeta(name="mine"), spec={"holderIdentity": "me"}))
    assert client.get(Plain, "mine")["spec"]["holderIdentity"] == "me"


def test_api_errors(client: Client) -> None:
    client.create(config_map("settings"))
    with pytest.raises(ApiError, match="already exists") as refused:
        client.create(config_map("settings"))
    assert refused.value.status.reason == "AlreadyExists"
    with pytest.raises(ApiError, match="is invalid") as refused:
        client.create(config_map("Not_Good"))
    assert refused.value.status.code == 422
