"""The metrics API of hollow nodes, and its replacement by an APIService."""

from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.apiregistration_v1 import APIService, APIServiceSpec, ServiceReference
from sampan.api.types.core_v1 import Binding, Container, Namespace, ObjectReference, Pod, PodSpec, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.metrics_api import resource_metrics
from sampan.machinery import errors
from sampan.machinery.client.transport import Request
from tests.controllers.cluster import Cluster, cluster

_PATH = "/apis/metrics.k8s.io/v1beta1"
_USAGE = {"hollow.sampan.dev/cpu": "250m", "hollow.sampan.dev/memory": "64Mi", "hollow.sampan.dev/log": "hello\n"}


async def _get(cluster: Cluster, path: str, *query: tuple[str, str]) -> Any:
    response = await cluster.transport.send(Request(method="GET", path=path, query=query, headers={}))
    return json.read_any(response.body())


async def _pod(cluster: Cluster, name: str, node: str, **labels: str) -> None:
    meta = ObjectMeta(name=name, namespace="ns", annotations=_USAGE, labels=labels)
    spec = PodSpec(containers=[Container(name="c", image="x")], automountServiceAccountToken=False)
    pods = cluster.client.for_kind(Pod)
    await pods.create(Pod(metadata=meta, spec=spec))
    target = ObjectReference(kind="Node", name=node)
    binding = Binding(metadata=ObjectMeta(name=name, namespace="ns"), target=target)
    await pods.create_subresource("binding", name, binding, "ns")


async def test_metrics_of_hollow_nodes_and_precedence_of_an_apiservice() -> None:
    async with cluster() as running:
        await running.client.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name="ns")))
        account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="ns"))
        await running.client.for_kind(ServiceAccount).create(account)
        async with running.nodes("n1", "n2"):
            running.server.serve_metrics()
            for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2")):
                await _pod(running, name, node, app=name)
            await running.clock.advance(10)
            nodes = await _get(running, f"{_PATH}/nodes")
            assert (nodes["kind"], [item["metadata"]["name"] for item in nodes["items"]]) == (
                "NodeMetricsList",
                ["n1", "n2"],
            )
            assert nodes["items"][0]["usage"] == {"cpu": "500000000n", "memory": "131072Ki"}
            pods = await _get(running, f"{_PATH}/namespaces/ns/pods", ("labelSelector", "app in (a,c)"))
            assert [item["metadata"]["name"] for item in pods["items"]] == ["a", "c"]
            assert pods["items"][0]["containers"] == [
                {"name": "c", "usage": {"cpu": "250000000n", "memory": "65536Ki"}}
            ]
            pod = await _get(running, f"{_PATH}/namespaces/ns/pods/b")
            assert (pod["kind"], pod["metadata"]["namespace"]) == ("PodMetrics", "ns")
            with pytest.raises(errors.NotFound) as missing:
                await _get(running, f"{_PATH}/namespaces/ns/pods/x")
            assert missing.value.message == 'podmetrics.metrics.k8s.io "ns/x" not found'
            group = await _get(running, "/apis/metrics.k8s.io")
            assert group["preferredVersion"]["groupVersion"] == "metrics.k8s.io/v1"
            stable = await _get(running, "/apis/metrics.k8s.io/v1/nodes")
            assert stable == {**nodes, "apiVersion": "metrics.k8s.io/v1"}
            await _check_precedence_of_an_apiservice(running)


async def _check_precedence_of_an_apiservice(cluster: Cluster) -> None:
    services, name = cluster.client.for_kind(APIService), "v1beta1.metrics.k8s.io"
    spec = APIServiceSpec(
        group="metrics.k8s.io",
        version="v1beta1",
        groupPriorityMinimum=100,
        versionPriority=100,
        insecureSkipTLSVerify=True,
        service=ServiceReference(name="metrics-server", namespace="kube-system"),
    )
    await services.create(APIService(metadata=ObjectMeta(name=name), spec=spec))
    await cluster.clock.settle()
    with pytest.raises(errors.ApiError):
        await _get(cluster, f"{_PATH}/nodes")
    await services.delete(name)
    await cluster.clock.settle()
    assert (await _get(cluster, f"{_PATH}/nodes"))["items"]


def test_pod_has_metrics_only_if_all_containers_have_metrics() -> None:
    stats = {"name": "c", "cpu": {"time": "t", "usageNanoCores": 5}, "memory": {"workingSetBytes": 100}}
    metrics = resource_metrics.pod_metrics("v1", "ns", "p", {}, {"containers": [stats]})
    assert metrics is not None
    assert metrics["containers"] == [{"name": "c", "usage": {"cpu": "5n", "memory": "100"}}]
    assert resource_metrics.pod_metrics("v1", "ns", "p", {}, {"containers": [stats, {"name": "d"}]}) is None
    assert resource_metrics.pod_metrics("v1", "ns", "p", {}, {"containers": []}) is None
    assert resource_metrics.node_metrics("v1", "n", {}, {"node": {"nodeName": "n"}}) is None
    table = resource_metrics.as_table([metrics], "meta.k8s.io/v1")
    assert table["rows"][0]["cells"] == ["p", "5n", "0Ki", "10s"]
