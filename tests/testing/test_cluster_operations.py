"""Operations of test clusters: objects, waits, explanations, dumps, virtual time."""

import asyncio
from collections.abc import Iterator

import pytest

from sampan.testing import Cluster, UnsupportedByCluster, WaitTimeout
from sampan.testing.builders import config_map, deployment, pod, secret
from sampan.testing.untyped_objects import KindNotServed

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd]}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: first}
size: 3
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(level="nodes", clock="virtual") as cluster:
        yield cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace() as name:
        yield name


class TestObjects:
    def test_manifest_may_contain_a_crd_and_its_objects(self, cluster: Cluster, namespace: str) -> None:
        definition, widget = cluster.apply(DEFINITION, namespace=namespace)
        assert definition["status"]["acceptedNames"]["kind"] == "Widget"
        assert widget["metadata"]["namespace"] == namespace
        for name in ("widget", "widgets", "wd", "Widget", "widgets.example.com"):
            assert cluster.get(f"{name}/first", namespace=namespace)["size"] == 3

    def test_apply_changes_an_existing_object(self, cluster: Cluster, namespace: str) -> None:
        for value in ("1", "2"):
            cluster.apply(config_map("map", {"key": value}), namespace=namespace)
        assert cluster.get("cm/map", namespace=namespace)["data"] == {"key": "2"}

    def test_misspelt_annotation_for_hollow_containers_is_rejected(self, cluster: Cluster, namespace: str) -> None:
        web = pod("web")
        web.metadata.annotations = {"hollow.sampan.dev/runn": "5s"}
        with pytest.raises(ValueError, match=r"did you mean hollow[.]sampan[.]dev/run"):
            cluster.apply(web, namespace=namespace)
        assert cluster.list("pods", namespace=namespace) == []

    def test_names_can_be_generated(self, cluster: Cluster, namespace: str) -> None:
        (stored,) = cluster.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "map-"}}, namespace=namespace
        )
        assert stored["metadata"]["name"].startswith("map-")

    def test_namespace_of_an_object_overrides_the_argument(self, cluster: Cluster, namespace: str) -> None:
        cluster.apply(config_map("map", namespace=namespace), namespace="elsewhere")
        cluster.get(config_map("map", namespace=namespace))

    def test_list_by_label_selector(self, cluster: Cluster, namespace: str) -> None:
        cluster.apply([config_map("a", labels={"x": "1"}), config_map("b")], namespace=namespace)
        selected = cluster.list("configmaps", namespace=namespace, labels="x=1")
        assert [(value["kind"], value["metadata"]["name"]) for value in selected] == [("ConfigMap", "a")]

    def test_errors_name_the_unknown_resource_or_object(self, cluster: Cluster) -> None:
        with pytest.raises(KindNotServed, match="the server offers no resource 'nonsense'"):
            cluster.get("nonsense/x")
        with pytest.raises(ValueError, match="'pods' is not KIND/NAME"):
            cluster.get("pods")
        with pytest.raises(LookupError, match="pod/none in namespace default does not exist"):
            cluster.get("pod/none")


class TestWaits:
    def test_wait_for_several_objects(self, cluster: Cluster, namespace: str) -> None:
        objects = cluster.apply([pod("a"), pod("b")], namespace=namespace)
        cluster.advance(seconds=5)
        running = cluster.wait_for(objects, "jsonpath={.status.phase}=Running", namespace=namespace)
        assert [value["metadata"]["name"] for value in running] == ["a", "b"]

    def test_wait_for_deletion(self, cluster: Cluster, namespace: str) -> None:
        cluster.apply(config_map("map"), namespace=namespace)
        cluster.delete("configmap/map", namespace=namespace)
        assert cluster.wait_for("configmap/map", "delete", namespace=namespace) == []

    def test_timeout_of_a_deployment_explains_its_pods(self, cluster: Cluster, namespace: str) -> None:
        web = deployment("web", replicas=2)
        web.spec.template.spec.nodeSelector = {"disk": "fast"}
        cluster.apply(web, namespace=namespace)
        cluster.advance(seconds=5)
        with pytest.raises(WaitTimeout) as failed:
            cluster.wait_for("deployment/web", "condition=Available", namespace=namespace, timeout_s=0.1)
        message = str(failed.value)
        assert message.startswith(
            f"deployment/web in namespace {namespace}: condition=Available was not met within 0.1 s"
        )
        assert "condition: Available=False (MinimumReplicasUnavailable" in message
        assert "event: Normal ScalingReplicaSet deployment/web" in message
        assert "bound to no node" in message
        assert "didn't match Pod's node affinity/selector" in message
        assert "NodeAffinity" in message
        assert "cluster.advance(seconds=…) lets time pass" in message

    def test_timeout_says_that_the_object_does_not_exist(self, cluster: Cluster) -> None:
        with pytest.raises(WaitTimeout, match="it does not exist"):
            cluster.wait_for("pod/none", "Ready", timeout_s=0.05)

    def test_timeout_names_the_exception_of_the_condition(self, cluster: Cluster, namespace: str) -> None:
        cluster.apply(config_map("map"), namespace=namespace)
        with pytest.raises(WaitTimeout, match="the condition raised KeyError: 'data'"):
            cluster.wait_for("cm/map", lambda value: value["data"]["x"], namespace=namespace, timeout_s=0.05)

    def test_explain_a_running_pod(self, cluster: Cluster, namespace: str) -> None:
        cluster.apply(pod("web"), namespace=namespace)
        cluster.advance(seconds=5)
        assert cluster.explain("pod/web", namespace=namespace).startswith("Pod web: Running, on node node-0")


class TestDumps:
    def test_dump_shows_objects_events_and_writes(self, cluster: Cluster, namespace: str) -> None:
        cluster.apply([pod("web"), secret("token", {"password": b"hunter2"})], namespace=namespace)
        cluster.advance(seconds=5)
        dump = cluster.dump(namespace)
        assert "name: web" in dump
        assert "event: Normal Scheduled pod/web" in dump
        assert "apiserver patch pods/" in dump
        assert "managedFields" not in dump

    def test_secrets_are_masked(self, cluster: Cluster, namespace: str) -> None:
        cluster.apply(secret("token", {"password": b"hunter2"}), namespace=namespace)
        dump = cluster.dump(namespace)
        assert "token" in dump
        assert "aHVudGVyMg" not in dump
        assert "***" in dump

    def test_length_of_a_dump_is_limited(self, cluster: Cluster, namespace: str) -> None:
        cluster.apply([config_map(f"map-{number}", {"x": "y" * 500}) for number in range(50)], namespace=namespace)
        dump = cluster.dump(namespace, limit=4000)
        assert len(dump) <= 4000
        assert "further objects are left out" in dump


def test_advance_requires_a_virtual_clock() -> None:
    with Cluster(level="api") as cluster, pytest.raises(UnsupportedByCluster, match='clock="virtual"'):
        cluster.advance(minutes=1)


def test_asynchronous_operations() -> None:
    async def use() -> None:
        async with Cluster(level="nodes", clock="virtual") as cluster, cluster.async_namespace() as namespace:
            await cluster.async_apply(deployment("web"), namespace=namespace)
            await cluster.async_advance(seconds=5)
            await cluster.async_wait_for("deployment/web", "condition=Available", namespace=namespace)
            assert "Available=True" in await cluster.async_explain("deployment/web", namespace=namespace)
            assert len(await cluster.async_list("pods", namespace=namespace)) == 1
            async with cluster.async_node_down("node-0"):
                await cluster.async_advance(minutes=1)
                conditions = (await cluster.async_get("node/node-0"))["status"]["conditions"]
                assert [condition["status"] for condition in conditions if condition["type"] == "Ready"] == ["Unknown"]
            await cluster.async_delete("deployment/web", namespace=namespace)
            await cluster.async_advance(minutes=1)
            assert await cluster.async_list("pods", namespace=namespace) == []
            assert "-- recent writes" in await cluster.async_dump(namespace)

    asyncio.run(use())


def test_cron_job_of_the_full_hour_runs_just_after_it() -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "any"}]}}
    spec = {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": template}}}
    with Cluster(level="controllers", clock="virtual") as cluster:
        assert cluster.clock.now() == 1767225600, "2026-01-01T00:00:00Z"
        cluster.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "hourly"}, "spec": spec})
        cluster.advance(hours=2)
        assert len(cluster.list("jobs")) == 1
        cluster.advance(seconds=1)
        assert len(cluster.list("jobs")) == 2
