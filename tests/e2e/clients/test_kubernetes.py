"""The official Python client: the package `kubernetes`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client, config, dynamic, utils, watch


@pytest.fixture
def api(sampan_kubeconfig: Path) -> Iterator[client.ApiClient]:
    with config.new_client_from_config(str(sampan_kubeconfig)) as client_:
        yield client_


@pytest.fixture
def core(api: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(api)


def config_map(name: str, **data: str) -> client.V1ConfigMap:
    metadata = client.V1ObjectMeta(name=name, labels={"kind-of": "test"})
    return client.V1ConfigMap(metadata=metadata, data=data)


def pod(name: str) -> client.V1Pod:
    container = client.V1Container(name="main", image="nginx")
    return client.V1Pod(metadata=client.V1ObjectMeta(name=name), spec=client.V1PodSpec(containers=[container]))


def test_config_map_lifecycle(core: client.CoreV1Api, sampan_namespace: str) -> None:
    created = core.create_namespaced_config_map(sampan_namespace, config_map("settings", color="red"))
    assert created.metadata.uid
    stored = core.read_namespaced_config_map("settings", sampan_namespace)
    stored.data["size"] = "small"
    replaced = core.replace_namespaced_config_map("settings", sampan_namespace, stored)
    assert replaced.metadata.resource_version != created.metadata.resource_version
    assert replaced.data == {"color": "red", "size": "small"}
    core.delete_namespaced_config_map("settings", sampan_namespace)
    with pytest.raises(client.ApiException, match="Not Found"):
        core.read_namespaced_config_map("settings", sampan_namespace)


@pytest.mark.parametrize(
    "patch",
    [{"data": {"size": "small", "color": None}}, [{"op": "remove", "path": "/data/color"}]],
    ids=["strategic", "json"],
)
def test_patch(core: client.CoreV1Api, sampan_namespace: str, patch: object) -> None:
    core.create_namespaced_config_map(sampan_namespace, config_map("settings", color="red", size="small"))
    patched = core.patch_namespaced_config_map("settings", sampan_namespace, patch)
    assert patched.data == {"size": "small"}


def test_list_in_pages(core: client.CoreV1Api, sampan_namespace: str) -> None:
    for number in range(5):
        core.create_namespaced_config_map(sampan_namespace, config_map(f"map-{number}"))
    names, token = [], None
    while True:
        page = core.list_namespaced_config_map(
            sampan_namespace, label_selector="kind-of=test", limit=2, _continue=token
        )
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"map-{number}" for number in range(5)]


def test_watch(core: client.CoreV1Api, sampan_namespace: str) -> None:
    core.create_namespaced_config_map(sampan_namespace, config_map("settings", color="red"))
    watcher, types = watch.Watch(), []
    for event in watcher.stream(
        core.list_namespaced_config_map, sampan_namespace, field_selector="metadata.name=settings", timeout_seconds=30
    ):
        types.append((event["type"], event["object"].data))
        if event["type"] == "ADDED":
            core.patch_namespaced_config_map("settings", sampan_namespace, {"data": {"color": "blue"}})
        elif event["type"] == "MODIFIED":
            core.delete_namespaced_config_map("settings", sampan_namespace)
        else:
            watcher.stop()
    assert types == [("ADDED", {"color": "red"}), ("MODIFIED", {"color": "blue"}), ("DELETED", {"color": "blue"})]


def test_pod_status_patch_and_empty_log(core: client.CoreV1Api, sampan_namespace: str) -> None:
    created = core.create_namespaced_pod(sampan_namespace, pod("web"))
    assert created.status.phase == "Pending"
    running = core.patch_namespaced_pod_status("web", sampan_namespace, {"status": {"phase": "Running"}})
    assert running.status.phase == "Running"
    assert not core.read_namespaced_pod_log("web", sampan_namespace)


def test_deployments(api: client.ApiClient, sampan_namespace: str) -> None:
    apps = client.AppsV1Api(api)
    labels = {"app": "web"}
    template = client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels=labels), spec=pod("web").spec)
    spec = client.V1DeploymentSpec(selector=client.V1LabelSelector(match_labels=labels), template=template)
    body = client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    apps.create_namespaced_deployment(sampan_namespace, body)
    assert [item.metadata.name for item in apps.list_namespaced_deployment(sampan_namespace).items] == ["web"]


def test_create_from_manifest(api: client.ApiClient, core: client.CoreV1Api, sampan_namespace: str) -> None:
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "stringData": {"a": "b"}}
    utils.create_from_dict(api, manifest, namespace=sampan_namespace)
    assert core.read_namespaced_secret("password", sampan_namespace).data == {"a": "Yg=="}


def test_dynamic_client(api: client.ApiClient, sampan_namespace: str, tmp_path: Path) -> None:
    resources = dynamic.DynamicClient(api, cache_file=str(tmp_path / "discovery"))
    maps = resources.resources.get(api_version="v1", kind="ConfigMap")
    maps.create({"metadata": {"name": "settings"}, "data": {"a": "1"}}, namespace=sampan_namespace)
    assert maps.get(name="settings", namespace=sampan_namespace).data.a == "1"
    deployments = resources.resources.get(api_version="apps/v1", kind="Deployment")
    assert deployments.get(namespace=sampan_namespace).items == []


class TestErrors:
    def test_already_exists(self, core: client.CoreV1Api, sampan_namespace: str) -> None:
        core.create_namespaced_config_map(sampan_namespace, config_map("settings"))
        with pytest.raises(client.ApiException) as refused:
            core.create_namespaced_config_map(sampan_namespace, config_map("settings"))
        assert refused.value.status == 409
        assert '"reason":"AlreadyExists"' in refused.value.body

    def test_stale_update_is_a_conflict(self, core: client.CoreV1Api, sampan_namespace: str) -> None:
        old = core.create_namespaced_config_map(sampan_namespace, config_map("settings"))
        core.patch_namespaced_config_map("settings", sampan_namespace, {"data": {"a": "1"}})
        with pytest.raises(client.ApiException) as refused:
            core.replace_namespaced_config_map("settings", sampan_namespace, old)
        assert refused.value.status == 409
        assert '"reason":"Conflict"' in refused.value.body

    def test_invalid_name(self, core: client.CoreV1Api, sampan_namespace: str) -> None:
        with pytest.raises(client.ApiException) as refused:
            core.create_namespaced_config_map(sampan_namespace, config_map("Not_Good"))
        assert refused.value.status == 422
