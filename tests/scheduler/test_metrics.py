"""Metrics of the scheduler: values, names, and sampling that leaves plugins unchanged."""

import asyncio
from typing import Any

import pytest

from sampan.api.types.core_v1 import ResourceRequirements, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery.telemetry.metrics import Metrics
from sampan.scheduler.framework.contract import PluginScope
from sampan.scheduler.framework.metrics import SAMPLE_INTERVAL, PointMetrics, SampledMethod
from sampan.scheduler.metrics import SchedulerMetrics, resource_text
from sampan.scheduler.scheduler import make_scheduler
from sampan.testing import builders
from tests.controllers.cluster import cluster
from tests.scheduler.running_scheduler import RunningScheduler


def value(text: str, start: str) -> float:
    (line,) = [line for line in text.splitlines() if line.startswith(f"{start} ")]
    return float(line.rpartition(" ")[2])


def test_metrics_of_attempts_queues_and_plugins() -> None:
    async def main() -> None:
        async with cluster() as served:
            metrics = Metrics()
            scheduler = make_scheduler(
                client=served.make_client("s"), clock=served.clock, metrics=SchedulerMetrics(metrics)
            )
            forget = served.clock.on_idle(scheduler.activity.idle)
            async with asyncio.TaskGroup() as group:
                task = group.create_task(scheduler.run())
                await served.clock.settle()
                running = RunningScheduler(served, scheduler)
                await prepare(running)
                text = metrics.text()
                task.cancel()
            forget()
        name = "scheduler_schedule_attempts_total"
        assert value(text, f'{name}{{result="scheduled",profile="default-scheduler"}}') == SAMPLE_INTERVAL + 1
        assert value(text, f'{name}{{result="unschedulable",profile="default-scheduler"}}') == 1
        assert value(text, 'scheduler_pending_pods{queue="unschedulable"}') == 1
        assert value(text, 'scheduler_queued_entities{queue="unschedulable",type="pod"}') == 1
        assert value(text, 'scheduler_queued_entities{queue="unschedulable",type="podgroup"}') == 0
        assert value(text, 'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"}') == 1
        assert value(text, 'scheduler_cache_size{type="pods"}') == SAMPLE_INTERVAL + 1
        assert value(text, "scheduler_pod_scheduling_attempts_count") == SAMPLE_INTERVAL + 1
        point = "scheduler_framework_extension_point_duration_seconds_count"
        assert (
            value(text, f'{point}{{extension_point="Bind",status="Success",profile="default-scheduler"}}')
            == SAMPLE_INTERVAL + 1
        )
        assert value(text, f'{point}{{extension_point="Score",status="Success",profile="default-scheduler"}}') >= 1
        plugin = "scheduler_plugin_execution_duration_seconds_count"
        fits = f'{plugin}{{plugin="NodeResourcesFit",extension_point="Filter",status="Success"}}'
        assert 1 <= value(text, fits) <= 4
        assert (
            value(text, 'scheduler_queue_incoming_pods_total{queue="active",event="UnschedulablePodAdd"}')
            == SAMPLE_INTERVAL + 2
        )
        failed = 'scheduler_queue_incoming_pods_total{queue="unschedulable",event="ScheduleAttemptFailure"}'
        assert value(text, failed) == 1
        prefix = 'scheduler_plugin_evaluation_total{plugin="NodeResourcesFit",extension_point="Filter"'
        assert value(text, prefix + ',profile="default-scheduler"}') % SAMPLE_INTERVAL == 0
        for point in ("Reserve", "Permit"):
            labels = f'{{extension_point="{point}",status="Success",profile="default-scheduler"}}'
            assert (
                value(text, f"scheduler_framework_extension_point_duration_seconds_count{labels}")
                == SAMPLE_INTERVAL + 1
            )
        assert value(text, 'scheduler_cache_size{type="assumed_pods"}') == 0

    async def prepare(running: RunningScheduler) -> None:
        account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
        await running.cluster.client.for_kind(ServiceAccount).create(account)
        await running.node("a", pods="110")
        for number in range(SAMPLE_INTERVAL + 1):
            await running.create(running.pod(f"p{number}", cpu="1m"))
        await running.create(running.pod("big", cpu="100"))
        await running.settle()

    asyncio.run(main())


STABLE_OR_BETA = {
    "schedule_attempts_total",
    "scheduling_attempt_duration_seconds",
    "preemption_victims",
    "preemption_attempts_total",
    "pending_pods",
    "goroutines",
    "pod_scheduling_sli_duration_seconds",
    "pod_scheduling_attempts",
    "framework_extension_point_duration_seconds",
    "queue_incoming_pods_total",
    "permit_wait_duration_seconds",
    "unschedulable_pods",
    "plugin_evaluation_total",
    "plugin_execution_duration_seconds",
    "scheduling_algorithm_duration_seconds",
}


def test_stable_and_beta_metrics_of_kube_scheduler_exist() -> None:
    names: set[str] = set()

    class RecordingMetrics(Metrics):
        def _add(self, family: Any) -> Any:
            names.add(family.name)
            return super()._add(family)

    SchedulerMetrics(RecordingMetrics())
    assert {f"scheduler_{name}" for name in STABLE_OR_BETA} <= names


def test_pod_resource_metrics() -> None:
    pod = builders.pod("p", namespace="x")
    assert pod.spec.containers
    pod.spec.containers[0].resources = ResourceRequirements(
        requests={"cpu": "1500m", "memory": "1Mi", "example.com/gpu": "2", "ephemeral-storage": "0"},
        limits={"hugepages-2Mi": "4Mi"},
    )
    pod.spec.nodeName, pod.spec.schedulerName, pod.spec.priority = "a", "s", 7
    failed_pod = builders.pod("q", namespace="x")
    failed_pod.status.phase = "Failed"
    text = asyncio.run(resource_text([pod, failed_pod]))
    labels = 'namespace="x",pod="p",node="a",scheduler="s",priority="7"'
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        f'kube_pod_resource_limit{{{labels},resource="hugepages-2Mi",unit="bytes"}} 4194304',
        f'kube_pod_resource_request{{{labels},resource="cpu",unit="cores"}} 1.5',
        f'kube_pod_resource_request{{{labels},resource="example.com/gpu",unit=""}} 2',
        f'kube_pod_resource_request{{{labels},resource="memory",unit="bytes"}} 1048576',
    ]


class Counting:
    name, scope = "Counting", PluginScope.NODE

    def filter(self, cycle: object, rows: object) -> int:
        return 7


def sampled_methods(*plugins: Counting) -> list[SampledMethod]:
    return [SampledMethod("Filter", plugin, "filter") for plugin in plugins]


def test_sampling_restores_the_methods_of_plugins() -> None:
    metrics = PointMetrics(profile="p", metrics=SchedulerMetrics())
    plugin, own = Counting(), Counting()
    own.filter = lambda cycle, rows: 8  # type: ignore[method-assign]
    mine = own.filter
    with metrics.measure_methods(sampled_methods(plugin, own)):
        assert "filter" in vars(plugin)
        assert (plugin.filter(None, None), own.filter(None, None)) == (7, 8)
    assert vars(plugin) == {}
    assert own.filter is mine
    with pytest.raises(RuntimeError), metrics.measure_methods(sampled_methods(plugin)):
        raise RuntimeError
    assert vars(plugin) == {}
    assert [metrics.start_cycle() for _ in range(SAMPLE_INTERVAL + 1)] == [True, *[False] * (SAMPLE_INTERVAL - 1), True]
