"""Autoscalers on a virtual clock, with metrics that the test sets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.feature_gates import FeatureGates
from sampan.api.types.apps_v1 import Deployment, ReplicaSet, StatefulSet
from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscaler
from sampan.api.types.core_v1 import Event, Pod
from sampan.machinery.client import Selection
from tests.controllers.autoscaling.pod_metrics import FakeMetrics, pod
from tests.controllers.cluster import CONFIG, Cluster
from tests.controllers.ownership.pod_cluster import pod_cluster

HPA = "horizontal-pod-autoscaler-controller"
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
IN_DEFAULT = Selection(namespace="default")


@dataclass(slots=True)
class AutoscaledDeployment:
    """A deployment whose pods the test creates, in place of the deployment controller."""

    cluster: Cluster
    metrics: FakeMetrics
    pods: list[str] = field(default_factory=list)

    async def create(self, replicas: int, **spec: Any) -> None:
        await self.create_target(replicas)
        await self.autoscale("web", **spec)

    async def create_target(self, replicas: int) -> None:
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        meta = {"name": "web", "namespace": "default"}
        deployment_spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        await self.cluster.client.for_kind(Deployment).create(
            codec.from_value({"metadata": meta, "spec": deployment_spec}, Deployment)
        )
        await self.set_pods(replicas)

    async def autoscale(self, name: str, kind: str = "Deployment", wait_s: float = 15, **spec: Any) -> None:
        """Create an autoscaler and wait for its first sync."""
        value = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "web"},
                "minReplicas": 1,
                "maxReplicas": 10,
                "metrics": [CPU],
                **spec,
            },
        }
        autoscaler = codec.from_value(value, HorizontalPodAutoscaler)
        await self.cluster.client.for_kind(HorizontalPodAutoscaler).create(autoscaler)
        await self.advance(wait_s)

    async def set_pods(self, count: int) -> None:
        client = self.cluster.client.for_kind(Pod)
        for number in range(len(self.pods), count):
            new_pod = pod(f"web-{number}")
            status, new_pod.metadata.deletionTimestamp = codec.to_value(new_pod.status), None
            await client.create(new_pod)
            await client.patch(new_pod.metadata.name, {"status": status}, "default", subresource="status")
            self.pods.append(new_pod.metadata.name)
        while len(self.pods) > count:
            await client.delete(self.pods.pop(), "default")

    async def set_usage(self, milli: int) -> None:
        """Set the usage of each pod, of which 100 are requested, and wait for the next sync."""
        self.metrics.pod_values = dict.fromkeys(self.pods, milli)
        await self.advance(15)

    async def replicas(self) -> int:
        return (await self.cluster.client.for_kind(Deployment).get("web", "default")).spec.replicas or 0

    async def hpa(self) -> HorizontalPodAutoscaler:
        return await self.cluster.client.for_kind(HorizontalPodAutoscaler).get("web", "default")

    async def conditions(self) -> dict[str, tuple[str, str]]:
        return {
            condition.type: (condition.status, condition.reason) for condition in (await self.hpa()).status.conditions
        }

    async def events(self) -> list[tuple[str, str]]:
        events = (await self.cluster.client.for_kind(Event).list(IN_DEFAULT)).items
        return [(event.reason, event.message) for event in events]

    async def advance(self, seconds: float) -> None:
        await self.cluster.clock.advance(seconds)


@asynccontextmanager
async def autoscaled_deployment(*, metrics: bool = True) -> AsyncIterator[AutoscaledDeployment]:
    source = FakeMetrics()
    async with pod_cluster() as c, c.running(HPA, config=replace(CONFIG, metrics=source if metrics else None)):
        yield AutoscaledDeployment(c, source)


async def test_replicas_rise_with_load_and_fall_after_the_stabilization_window() -> None:
    async with autoscaled_deployment() as c:
        await c.create(2)
        await c.set_usage(100)
        assert await c.replicas() == 4
        assert (await c.conditions())["AbleToScale"] == ("True", "SucceededRescale")
        status = (await c.hpa()).status
        assert (status.currentReplicas, status.desiredReplicas) == (2, 4)
        assert status.lastScaleTime is not None
        message = "New size: 4; reason: cpu resource utilization (percentage of request) above target"
        assert ("SuccessfulRescale", message) in await c.events()
        await c.set_pods(4)
        await c.set_usage(50)
        assert await c.conditions() == {
            "AbleToScale": ("True", "ReadyForNewScale"),
            "ScalingActive": ("True", "ValidMetricFound"),
            "ScaledToZero": ("False", "NotScaledToZero"),
            "ScalingLimited": ("False", "DesiredWithinRange"),
        }
        await c.set_usage(10)
        assert await c.replicas() == 4
        assert (await c.conditions())["AbleToScale"] == ("True", "ScaleDownStabilized")
        await c.advance(330)
        assert await c.replicas() == 1
        assert ("SuccessfulRescale", "New size: 1; reason: All metrics below target") in await c.events()


async def test_new_autoscaler_is_synced_at_once_and_then_once_per_period() -> None:
    async with autoscaled_deployment() as c:
        await c.autoscale("web", wait_s=0)
        await c.cluster.clock.settle()
        assert await c.conditions() == {"AbleToScale": ("False", "FailedGetScale")}
        await c.create_target(2)
        await c.advance(14.9)
        assert await c.conditions() == {"AbleToScale": ("False", "FailedGetScale")}
        await c.advance(0.1)
        assert (await c.conditions())["AbleToScale"] == ("True", "SucceededGetScale")


async def test_status_shows_current_metrics() -> None:
    async with autoscaled_deployment() as c:
        await c.create(2)
        await c.set_usage(52)
        (metric,) = (await c.hpa()).status.currentMetrics or []
        assert metric.resource is not None
        assert (metric.resource.current.averageUtilization, metric.resource.current.averageValue) == (52, "52m")
        active = next(condition for condition in (await c.hpa()).status.conditions if condition.type == "ScalingActive")
        assert active.message == (
            "the HPA was able to successfully calculate a replica count from cpu resource utilization "
            "(percentage of request)"
        )


@pytest.mark.parametrize(
    ("replicas", "expected", "reason"),
    [
        (12, 10, "Current number of replicas above Spec.MaxReplicas"),
        (1, 2, "Current number of replicas below Spec.MinReplicas"),
    ],
)
async def test_min_and_max_replicas_are_enforced_without_metrics(replicas: int, expected: int, reason: str) -> None:
    async with autoscaled_deployment() as c:
        await c.create(replicas, minReplicas=2)
        assert await c.replicas() == expected
        assert ("SuccessfulRescale", f"New size: {expected}; reason: {reason}") in await c.events()


async def test_zero_replicas_disable_scaling() -> None:
    async with autoscaled_deployment() as c:
        await c.create(0)
        assert await c.replicas() == 0
        assert (await c.conditions())["ScalingActive"] == ("False", "ScalingDisabled")


async def test_missing_metrics_api_sets_scaling_active_to_false() -> None:
    async with autoscaled_deployment(metrics=False) as c:
        await c.create(2)
        active = next(condition for condition in (await c.hpa()).status.conditions if condition.type == "ScalingActive")
        assert (active.status, active.reason) == ("False", "FailedGetResourceMetric")
        why = (
            "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from "
            "resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"
        )
        assert active.message == f"the HPA was unable to compute the replica count: {why}"
        events = await c.events()
        assert ("FailedGetResourceMetric", why) in events
        message = (
            f"invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {why}"
        )
        assert ("FailedComputeMetricsReplicas", message) in events


SERVICE = {"kind": "Service", "name": "front", "apiVersion": "v1"}
CUSTOM = {
    "pods": {
        "type": "Pods",
        "pods": {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "10"}},
    },
    "object": {
        "type": "Object",
        "object": {
            "describedObject": SERVICE,
            "metric": {"name": "hits"},
            "target": {"type": "Value", "value": "10"},
        },
    },
    "external": {
        "type": "External",
        "external": {
            "metric": {"name": "jobs", "selector": {"matchLabels": {"queue": "fast"}}},
            "target": {"type": "AverageValue", "averageValue": "10"},
        },
    },
    "container": {
        "type": "ContainerResource",
        "containerResource": {
            "name": "cpu",
            "container": "c",
            "target": {"type": "Utilization", "averageUtilization": 50},
        },
    },
}


@pytest.mark.parametrize(
    ("kind", "reason", "why"),
    [
        (
            "pods",
            "FailedGetPodsMetric",
            "unable to get metric hits: unable to fetch metrics from custom metrics API: "
            "no custom metrics API (custom.metrics.k8s.io) registered",
        ),
        (
            "object",
            "FailedGetObjectMetric",
            "unable to get metric hits on Service default/front: unable to fetch "
            "metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered",
        ),
        (
            "external",
            "FailedGetExternalMetric",
            "unable to get external metric default/jobs/"
            "&LabelSelector{MatchLabels:map[string]string{queue: fast,},"
            "MatchExpressions:[]LabelSelectorRequirement{},}: "
            "unable to fetch metrics from external metrics API: the server could not find the requested resource "
            "(get jobs.external.metrics.k8s.io)",
        ),
        (
            "container",
            "FailedGetContainerResourceMetric",
            "failed to get cpu utilization: unable to get metrics for "
            "resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested "
            "resource (get pods.metrics.k8s.io)",
        ),
    ],
)
async def test_missing_metrics_api_is_reported_for_each_metric_type(kind: str, reason: str, why: str) -> None:
    async with autoscaled_deployment(metrics=False) as c:
        await c.create(2, metrics=[CUSTOM[kind]])
        assert (await c.conditions())["ScalingActive"] == ("False", reason)
        assert (reason, why) in await c.events()


@pytest.mark.parametrize(("kind", "expected"), [("pods", 4), ("object", 6), ("external", 5), ("container", 4)])
async def test_each_metric_type_scales_the_target(kind: str, expected: int) -> None:
    async with autoscaled_deployment() as c:
        c.metrics.object_value, c.metrics.external_values = 30_000, [20_000, 25_000]
        await c.create(2, metrics=[CUSTOM[kind]], behavior={"scaleUp": {"stabilizationWindowSeconds": 0}})
        await c.set_usage(100 if kind == "container" else 20_000)
        assert await c.replicas() == expected


async def test_highest_metric_wins_and_failing_metric_blocks_only_scale_down() -> None:
    async with autoscaled_deployment() as c:
        await c.create(4, metrics=[CPU, CUSTOM["external"]])
        await c.set_usage(10)
        assert await c.replicas() == 4
        assert (await c.conditions())["ScalingActive"] == ("False", "FailedGetExternalMetric")
        await c.set_usage(75)
        assert await c.replicas() == 6
        c.metrics.external_values = [90_000]
        await c.set_usage(75)
        assert await c.replicas() == 9


async def test_scale_up_policy_limits_the_rate() -> None:
    policy = {"type": "Pods", "value": 1, "periodSeconds": 60}
    async with autoscaled_deployment() as c:
        await c.create(2, behavior={"scaleUp": {"policies": [policy]}})
        await c.set_usage(200)
        assert await c.replicas() == 3
        assert (await c.conditions())["ScalingLimited"] == ("True", "ScaleUpLimit")
        await c.advance(30)
        assert await c.replicas() == 3
        await c.advance(30)
        assert await c.replicas() == 4


async def test_tolerance_of_behavior_overrides_the_default() -> None:
    async with autoscaled_deployment() as c:
        await c.create(10, maxReplicas=20, behavior={"scaleUp": {"tolerance": "0.5"}})
        await c.set_usage(70)
        assert await c.replicas() == 10
        await c.set_usage(80)
        assert await c.replicas() == 16


async def test_missing_scale_target_is_reported() -> None:
    async with autoscaled_deployment() as c:
        await c.autoscale("web")
        assert (await c.conditions())["AbleToScale"] == ("False", "FailedGetScale")
        assert ("FailedGetScale", 'deployments.apps "web" not found') in await c.events()


async def test_unknown_target_kind_is_reported() -> None:
    async with autoscaled_deployment() as c:
        await c.autoscale("web", kind="Flock")
        assert ("FailedGetScale", 'no matches for kind "Flock" in group "apps"') in await c.events()


@pytest.mark.parametrize("type", [ReplicaSet, StatefulSet])
async def test_replicasets_and_statefulsets_are_scaled(type: type[Any]) -> None:
    async with autoscaled_deployment() as c:
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        client = c.cluster.client.for_kind(type)
        await client.create(codec.from_value({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}, type))
        await c.set_pods(2)
        await c.autoscale("web", kind=type.__name__)
        await c.set_usage(100)
        assert (await client.get("web", "default")).spec.replicas == 4


async def test_pods_selected_by_two_autoscalers_are_ambiguous() -> None:
    async with autoscaled_deployment() as c:
        await c.create(2)
        await c.autoscale("other")
        await c.set_usage(100)
        assert (await c.conditions())["ScalingActive"] == ("False", "AmbiguousSelector")
        await c.autoscale("third")
        names = "[{other default} {third default}]"
        message = f"pods by selector app=web are controlled by more than one HPA (e.g. {names})"
        assert ("AmbiguousSelector", message) in await c.events()


async def test_the_second_run_writes_nothing() -> None:
    source = FakeMetrics()
    async with pod_cluster() as cluster:
        config = replace(CONFIG, metrics=source)
        async with cluster.running(HPA, config=config):
            c = AutoscaledDeployment(cluster, source)
            await c.create(2)
            await c.set_usage(50)
        before = await cluster.revision()
        async with cluster.running(HPA, config=config):
            await cluster.clock.advance(60)
        assert await cluster.revision() == before


def object_metric(target: str = "10") -> dict[str, Any]:
    described = {"kind": "Service", "name": "front", "apiVersion": "v1"}
    metric = {"metric": {"name": "hits"}, "describedObject": described, "target": {"type": "Value", "value": target}}
    return {"type": "Object", "object": metric}


async def test_object_metric_scales_to_zero_and_back() -> None:
    async with autoscaled_deployment() as c:
        c.metrics.object_value = 10_000
        await c.create(2, minReplicas=0, metrics=[object_metric()])
        assert "ScaledToZero" not in await c.conditions()
        c.metrics.object_value = 0
        await c.advance(330)
        assert await c.replicas() == 0
        assert (await c.conditions())["ScaledToZero"] == ("True", "ScaledToZero")
        await c.set_pods(0)
        await c.advance(30)
        assert await c.replicas() == 0
        c.metrics.object_value = 20_000
        await c.advance(15)
        assert await c.replicas() == 2
        assert (await c.conditions())["ScaledToZero"] == ("False", "NotScaledToZero")


async def test_target_that_a_user_scales_to_zero_stays_there() -> None:
    async with autoscaled_deployment() as c:
        c.metrics.object_value = 20_000
        await c.create(2, minReplicas=0, metrics=[object_metric()])
        await c.cluster.client.for_kind(Deployment).patch("web", {"spec": {"replicas": 0}}, "default")
        await c.advance(60)
        assert await c.replicas() == 0
        assert (await c.conditions())["ScalingActive"] == ("False", "ScalingDisabled")


async def test_changed_spec_is_evaluated_at_once() -> None:
    async with autoscaled_deployment() as c:
        await c.create(2)
        await c.set_usage(50)
        assert (await c.hpa()).status.observedGeneration == 1
        await c.advance(5)
        client = c.cluster.client.for_kind(HorizontalPodAutoscaler)
        await client.patch("web", {"spec": {"minReplicas": 4}}, "default")
        await c.cluster.clock.settle()
        assert await c.replicas() == 4
        assert (await c.hpa()).status.observedGeneration == 2


async def test_without_its_gate_a_generation_is_not_reported() -> None:
    gates = FeatureGates({"HPAGeneration": False})
    source = FakeMetrics()
    config = replace(CONFIG, metrics=source, feature_gates=gates)
    async with pod_cluster(gates) as cluster, cluster.running(HPA, config=config):
        c = AutoscaledDeployment(cluster, source)
        await c.create(2)
        await c.set_usage(50)
        assert (await c.hpa()).status.observedGeneration is None
        client = cluster.client.for_kind(HorizontalPodAutoscaler)
        await client.patch("web", {"spec": {"minReplicas": 4}}, "default")
        await cluster.clock.settle()
        assert await c.replicas() == 2
