"""Clients of the resource, custom and external metrics APIs."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from sampan.api.selectors import labels
from sampan.api.types.autoscaling_v2 import CrossVersionObjectReference
from sampan.controllers.autoscaling.metrics import ApiMetrics, MetricsUnavailable, PodMetric
from sampan.host.clock import VirtualClock
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.client.codecs import ObjectCodec
from sampan.machinery.client.responses import BytesResponse
from sampan.machinery.client.transport import Events, Request, Response

PODS = labels.parse("app=web")
TIMESTAMP = "1970-01-01T00:01:40Z"


class FakeTransport:
    """A transport that serves the paths of `responses` and answers 404 for others."""

    def __init__(self, responses: Mapping[str, Any]) -> None:
        self._responses = responses
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        if request.path not in self._responses:
            raise errors.generic(404, "404 page not found", is_unexpected=True)
        return BytesResponse(200, {}, json.dumps(self._responses[request.path]).encode())

    def watch(self, request: Request, codec: ObjectCodec) -> AbstractAsyncContextManager[Events]:
        raise NotImplementedError

    async def close(self) -> None:
        return


def source(responses: Mapping[str, Any]) -> tuple[ApiMetrics, FakeTransport]:
    transport = FakeTransport(responses)
    return ApiMetrics(Client(transport=transport, clock=VirtualClock(), component="test")), transport


def pod_metrics(name: str, *containers: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "timestamp": TIMESTAMP, "window": "30s", "containers": list(containers)}


def container(name: str, **usage: str) -> dict[str, Any]:
    return {"name": name, "usage": usage}


POD_METRICS = {
    "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods": {
        "items": [
            pod_metrics("a", container("c", cpu="100m", memory="1Ki"), container("d", cpu="1")),
            pod_metrics("b", container("c", cpu="5n")),
            pod_metrics("none"),
        ]
    }
}


def test_resource_metrics_of_pods() -> None:
    metrics, transport = source(POD_METRICS)
    assert asyncio.run(metrics.get_resource_metric("cpu", "default", PODS, "")) == {
        "a": PodMetric(1100, 100.0, 30.0),
        "b": PodMetric(1, 100.0, 30.0),
    }
    assert transport.requests[0].query == [("labelSelector", "app=web")]
    assert list(asyncio.run(metrics.get_resource_metric("memory", "default", PODS, ""))) == []
    assert asyncio.run(metrics.get_resource_metric("cpu", "default", PODS, "d")) == {"a": PodMetric(1000, 100.0, 30.0)}


CUSTOM = "/apis/custom.metrics.k8s.io"
VERSIONS = {"versions": [{"version": "v1beta1"}, {"version": "v1beta2"}], "preferredVersion": {"version": "v1beta2"}}


def value(name: str, amount: str, **more: Any) -> dict[str, Any]:
    return {"describedObject": {"name": name}, "value": amount, "timestamp": TIMESTAMP, **more}


def test_custom_metrics_of_pods() -> None:
    path = f"{CUSTOM}/v1beta2/namespaces/default/pods/*/hits"
    metrics, transport = source(
        {CUSTOM: VERSIONS, path: {"items": [value("a", "2"), value("b", "1k", windowSeconds=5)]}}
    )
    values = asyncio.run(metrics.get_pods_metric("hits", "default", PODS, labels.parse("verb=get")))
    assert values == {"a": PodMetric(2000, 100.0, 60.0), "b": PodMetric(1_000_000, 100.0, 5.0)}
    assert transport.requests[-1].query == [("labelSelector", "app=web"), ("metricLabelSelector", "verb=get")]


def test_custom_metrics_of_an_object() -> None:
    groups = {"groups": [{"name": "apps", "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}]}
    apps = {"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True, "verbs": ["get"]}]}
    path = f"{CUSTOM}/v1beta2/namespaces/default/deployments.apps/web/hits"
    responses = {
        CUSTOM: VERSIONS,
        "/api": {},
        "/apis": groups,
        "/apis/apps/v1": apps,
        path: {"items": [value("web", "7")]},
    }
    metrics, _ = source(responses)
    described = CrossVersionObjectReference(kind="Deployment", name="web", apiVersion="apps/v1")
    assert asyncio.run(metrics.get_object_metric("hits", "default", described, labels.EVERYTHING)) == 7000


def test_custom_metric_of_a_namespace_without_items_is_unavailable() -> None:
    metrics, _ = source({CUSTOM: VERSIONS, f"{CUSTOM}/v1beta2/namespaces/default/metrics/hits": {"items": []}})
    described = CrossVersionObjectReference(kind="Namespace", name="default", apiVersion="v1")
    with pytest.raises(MetricsUnavailable, match="no metrics returned from custom metrics API"):
        asyncio.run(metrics.get_object_metric("hits", "default", described, labels.EVERYTHING))


def test_external_metrics() -> None:
    path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/jobs"
    metrics, transport = source({path: {"items": [{"value": "3"}, {"value": "500m"}]}})
    assert asyncio.run(metrics.get_external_metric("jobs", "default", labels.parse("queue=fast"))) == [3000, 500]
    assert transport.requests[-1].query == [("labelSelector", "queue=fast")]


def test_unserved_metrics_apis_are_unavailable() -> None:
    metrics, _ = source({})
    with pytest.raises(MetricsUnavailable) as caught:
        asyncio.run(metrics.get_resource_metric("cpu", "default", PODS, ""))
    assert str(caught.value) == (
        "unable to fetch metrics from resource metrics API: "
        "the server could not find the requested resource (get pods.metrics.k8s.io)"
    )
    with pytest.raises(MetricsUnavailable, match=r"no custom metrics API \(custom.metrics.k8s.io\) registered"):
        asyncio.run(metrics.get_pods_metric("hits", "default", PODS, labels.EVERYTHING))
