"""Workloads of two billion replicas cost the controllers what workloads of a thousand do."""

import asyncio
import time
import tracemalloc
from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscaler
from sampan.api.types.batch_v1 import CronJob, Job
from sampan.api.types.core_v1 import Namespace, Pod, ReplicationController, ResourceQuota
from sampan.api.types.policy_v1 import PodDisruptionBudget
from sampan.machinery.client import Selection
from tests.controllers.cluster import Cluster, cluster

HUGE = 2_000_000_000
FEW = 1_000
ALLOWED = 30
NAMESPACE = "crowd"
LABELS = {"app": "crowd"}
CONTROLLERS = (
    "resourcequota-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "deployment-controller",
    "daemonset-controller",
    "job-controller",
    "cronjob-controller",
    "horizontal-pod-autoscaler-controller",
    "disruption-controller",
    "ttl-after-finished-controller",
)
POD = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m"}}}]}
JOB_POD = {**POD, "restartPolicy": "Never"}


def template(name: str) -> dict[str, Any]:
    return {"metadata": {"labels": {**LABELS, "of": name}}, "spec": POD}


def selector(name: str) -> dict[str, Any]:
    return {"matchLabels": {**LABELS, "of": name}}


def workload_with_replicas(name: str, count: int, **more: Any) -> dict[str, Any]:
    spec = {"replicas": count, "selector": selector(name), "template": template(name), **more}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def objects_with_count(count: int) -> list[Any]:
    """One object of every kind in which a user can write a number, with that number."""
    indexed = min(count, 100_000)  # the API allows no more pods of an indexed job at a time
    meta = {"namespace": NAMESPACE}
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": "50%"}}
    daemons = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": count}}
    job = {"template": {"spec": JOB_POD}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "deployment"}
    values: list[tuple[type[Any], dict[str, Any]]] = [
        (ReplicaSet, workload_with_replicas("replicaset", count, minReadySeconds=count)),
        (Deployment, workload_with_replicas("deployment", count, strategy=rolling, revisionHistoryLimit=count)),
        (StatefulSet, workload_with_replicas("ordered", count, serviceName="s", minReadySeconds=count)),
        (StatefulSet, workload_with_replicas("parallel", count, serviceName="s", podManagementPolicy="Parallel")),
        (StatefulSet, workload_with_replicas("shifted", count, serviceName="s", ordinals={"start": 100})),
        (
            ReplicationController,
            {
                "metadata": {"name": "rc", **meta},
                "spec": {"replicas": count, "selector": {**LABELS, "of": "rc"}, "template": template("rc")},
            },
        ),
        (
            DaemonSet,
            {
                "metadata": {"name": "daemons", **meta},
                "spec": {"selector": selector("daemons"), "template": template("daemons"), "updateStrategy": daemons},
            },
        ),
        (Job, {"metadata": {"name": "wide", **meta}, "spec": {**job, "parallelism": count, "completions": count}}),
        (
            Job,
            {
                "metadata": {"name": "limits", **meta},
                "spec": {
                    **job,
                    "backoffLimit": count,
                    "activeDeadlineSeconds": count,
                    "ttlSecondsAfterFinished": count,
                    "parallelism": count,
                },
            },
        ),
        (
            Job,
            {
                "metadata": {"name": "indexed", **meta},
                "spec": {**job, "parallelism": indexed, "completions": count, "completionMode": "Indexed"},
            },
        ),
        (
            CronJob,
            {
                "metadata": {"name": "cron", **meta},
                "spec": {
                    "schedule": "* * * * *",
                    "startingDeadlineSeconds": count,
                    "successfulJobsHistoryLimit": count,
                    "failedJobsHistoryLimit": count,
                    "jobTemplate": {"spec": {**job, "parallelism": count}},
                },
            },
        ),
        (
            HorizontalPodAutoscaler,
            {
                "metadata": {"name": "scaler", **meta},
                "spec": {"scaleTargetRef": target, "minReplicas": count, "maxReplicas": count},
            },
        ),
        (
            PodDisruptionBudget,
            {"metadata": {"name": "budget", **meta}, "spec": {"minAvailable": count, "selector": selector("ordered")}},
        ),
    ]
    return [codec.from_value(value, type) for type, value in values]


async def fill(cluster: Cluster, count: int) -> None:
    client = cluster.client
    await client.for_kind(Namespace).create(codec.from_value({"metadata": {"name": NAMESPACE}}, Namespace))
    quota = {"metadata": {"name": "few", "namespace": NAMESPACE}, "spec": {"hard": {"pods": str(ALLOWED)}}}
    await client.for_kind(ResourceQuota).create(codec.from_value(quota, ResourceQuota))
    async with cluster.running("resourcequota-controller", "serviceaccount-controller"):
        await cluster.clock.advance(58)  # the cron job is due two seconds later
    for obj in objects_with_count(count):
        await client.for_kind(type(obj)).create(obj)


def measure_cost(count: int) -> tuple[float, int]:
    """The CPU time and the peak memory of all controllers for four seconds of virtual time, in which the cron job
    starts a job, and after a restart."""

    async def main() -> tuple[float, int]:
        async with cluster() as served:
            await fill(served, count)
            before = time.process_time()
            tracemalloc.start()
            try:
                for run_s in (4, 0.2):
                    async with served.running(*CONTROLLERS):
                        await served.clock.advance(run_s)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            spent = time.process_time() - before
            jobs = (await served.client.for_kind(Job).list(Selection(namespace=NAMESPACE))).items
            assert sum(job.metadata.name.startswith("cron-") for job in jobs) == 1
            assert len((await served.client.for_kind(Pod).list(Selection(namespace=NAMESPACE))).items) == ALLOWED
            return spent, peak

    return asyncio.run(main())


@pytest.fixture
def cost_of_a_thousand() -> tuple[float, int]:
    return measure_cost(FEW)


def test_two_billion_replicas_cost_what_a_thousand_do(cost_of_a_thousand: tuple[float, int]) -> None:
    spent, peak = measure_cost(HUGE)
    assert spent < 3 * cost_of_a_thousand[0] + 1, (spent, cost_of_a_thousand)
    assert peak < 2 * cost_of_a_thousand[1] + (16 << 20), (peak, cost_of_a_thousand)
