"""An autoscaler, the controllers of a deployment and hollow nodes: replicas follow the load and stabilize."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sampan.api.codec import json as codec
from sampan.api.selectors.labels import Selector
from sampan.api.types.apps_v1 import Deployment
from sampan.api.types.autoscaling_v2 import CrossVersionObjectReference, HorizontalPodAutoscaler
from sampan.api.types.core_v1 import Pod
from sampan.controllers.autoscaling.metrics import MetricsUnavailable, PodMetric, PodMetrics
from sampan.machinery.client import Selection
from tests.controllers.cluster import CONFIG, Cluster
from tests.controllers.ownership.pod_cluster import pod_cluster

CONTROLLERS = ("deployment-controller", "replicaset-controller", "horizontal-pod-autoscaler-controller")
IN_DEFAULT = Selection(namespace="default")


class SharedLoad:
    """A MetricsSource whose load, in thousandths of a core, is shared by the running pods."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self.milli = cluster, 0

    async def get_resource_metric(self, resource: str, namespace: str, pods: Selector, container: str) -> PodMetrics:
        listed = [
            pod
            for pod in (await self._cluster.client.for_kind(Pod).list(IN_DEFAULT)).items
            if pod.status.phase == "Running"
        ]
        if not listed:
            raise MetricsUnavailable("no metrics returned from resource metrics API")
        now = self._cluster.clock.now()
        return {pod.metadata.name: PodMetric(self.milli // len(listed), now) for pod in listed}

    async def get_pods_metric(self, metric: str, namespace: str, pods: Selector, selector: Selector) -> PodMetrics:
        raise MetricsUnavailable("not available in this test")

    async def get_object_metric(
        self, metric: str, namespace: str, described: CrossVersionObjectReference, selector: Selector
    ) -> int:
        raise MetricsUnavailable("not available in this test")

    async def get_external_metric(self, metric: str, namespace: str, selector: Selector) -> Sequence[int]:
        raise MetricsUnavailable("not available in this test")


DEPLOYMENT: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]},
        },
    },
}
AUTOSCALER: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 20,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
            }
        ],
    },
}


async def replicas(c: Cluster) -> int:
    return (await c.client.for_kind(Deployment).get("web", "default")).status.readyReplicas


async def test_replicas_follow_the_load_and_stabilize() -> None:
    async with pod_cluster() as c:
        load = SharedLoad(c)
        config = replace(CONFIG, metrics=load)
        async with c.nodes("n1", "n2"), c.running_binder(), c.running(*CONTROLLERS, config=config):
            await c.client.for_kind(Deployment).create(codec.from_value(DEPLOYMENT, Deployment))
            await c.client.for_kind(HorizontalPodAutoscaler).create(
                codec.from_value(AUTOSCALER, HorizontalPodAutoscaler)
            )
            for milli, expected in ((600, 12), (300, 6), (5000, 20), (50, 1)):
                load.milli = milli
                await c.clock.advance(1200)
                assert await replicas(c) == expected
                before = await c.client.for_kind(Deployment).get("web", "default")
                await c.clock.advance(600)
                after = await c.client.for_kind(Deployment).get("web", "default")
                assert after.metadata.generation == before.metadata.generation
