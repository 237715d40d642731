"""The whole chain: usage annotations of hollow pods, statistics of kubelets, the metrics API, and the autoscaler."""

from typing import Any

from sampan.api.codec import json
from sampan.api.types.apps_v1 import Deployment
from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscaler
from sampan.api.types.core_v1 import Namespace, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from tests.controllers.cluster import cluster

_CONTROLLERS = ("deployment-controller", "replicaset-controller", "horizontal-pod-autoscaler-controller")


def _deployment() -> Any:
    template = {
        "metadata": {"labels": {"app": "web"}, "annotations": {"hollow.sampan.dev/cpu": "900m"}},
        "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return json.from_value({"metadata": {"name": "web", "namespace": "ns"}, "spec": spec}, Deployment)


def _autoscaler() -> Any:
    target = {"type": "Utilization", "averageUtilization": 30}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 5,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    meta = {"name": "web", "namespace": "ns"}
    return json.from_value({"metadata": meta, "spec": spec}, HorizontalPodAutoscaler)


async def test_autoscaler_scales_by_the_cpu_usage_of_hollow_pods() -> None:
    async with cluster() as running:
        client = running.client
        await client.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name="ns")))
        account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="ns"))
        await client.for_kind(ServiceAccount).create(account)
        async with running.nodes("n1", "n2"), running.running_binder(), running.running(*_CONTROLLERS):
            running.server.serve_metrics()
            await client.for_kind(Deployment).create(_deployment())
            await running.clock.advance(60)
            await client.for_kind(HorizontalPodAutoscaler).create(_autoscaler())
            await running.clock.advance(400)
            autoscaler = await client.for_kind(HorizontalPodAutoscaler).get("web", "ns")
            metrics = autoscaler.status.currentMetrics
            assert metrics is not None
            assert metrics[0].resource is not None
            assert metrics[0].resource.current.averageUtilization == 90
            assert (await client.for_kind(Deployment).get("web", "ns")).spec.replicas == 5
