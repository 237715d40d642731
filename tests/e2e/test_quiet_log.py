"""Ordinary operations log no warning, so that an operator can trust the warnings that appear."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.apps_v1 import DaemonSet, Deployment, StatefulSet
from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscaler
from sampan.api.types.batch_v1 import CronJob, Job
from sampan.api.types.core_v1 import ConfigMap, Namespace, PersistentVolumeClaim, Pod, Secret, Service
from sampan.api.types.policy_v1 import PodDisruptionBudget
from sampan.host.clock import VirtualClock
from sampan.machinery import errors
from sampan.machinery.client import Client, Selection
from sampan.testing import Cluster

ROUNDS = 3
NODES = 3
CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}
JOB_POD = {
    "metadata": {"annotations": {"hollow.sampan.dev/run": "2s"}},
    "spec": {**CONTAINERS, "restartPolicy": "Never"},
}


@pytest.fixture
def _no_warnings(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.WARNING):
        yield
        messages = [record.getMessage() for record in caplog.get_records("call") if record.levelno >= logging.WARNING]
    assert not messages, "\n".join(messages)


def labelled_workload(name: str, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": CONTAINERS}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template, **spec}}


def contents() -> list[Any]:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "deployment"}
    values: list[tuple[type[Any], dict[str, Any]]] = [
        (ConfigMap, {"metadata": {"name": "config"}, "data": {"a": "b"}}),
        (Secret, {"metadata": {"name": "secret"}}),
        (Service, {"metadata": {"name": "web"}, "spec": {"selector": {"app": "deployment"}, "ports": [{"port": 80}]}}),
        (Deployment, labelled_workload("deployment", replicas=5)),
        (StatefulSet, labelled_workload("statefulset", replicas=2, serviceName="web")),
        (DaemonSet, labelled_workload("daemonset")),
        (Job, {"metadata": {"name": "job"}, "spec": {"completions": 3, "parallelism": 2, "template": JOB_POD}}),
        (
            CronJob,
            {
                "metadata": {"name": "cron"},
                "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": JOB_POD}}},
            },
        ),
        (PersistentVolumeClaim, {"metadata": {"name": "claim"}, "spec": claim}),
        (Pod, {"metadata": {"name": "pod"}, "spec": CONTAINERS}),
        (
            PodDisruptionBudget,
            {
                "metadata": {"name": "budget"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "deployment"}}},
            },
        ),
        (
            HorizontalPodAutoscaler,
            {
                "metadata": {"name": "scaler"},
                "spec": {
                    "scaleTargetRef": target,
                    "maxReplicas": 6,
                    "metrics": [
                        {
                            "type": "Resource",
                            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                        }
                    ],
                },
            },
        ),
    ]
    return [codec.from_value(value, type) for type, value in values]


async def create_all(client: Client, namespace: str) -> None:
    await client.for_kind(Namespace).create(codec.from_value({"metadata": {"name": namespace}}, Namespace))
    for obj in contents():
        obj.metadata.namespace = namespace
        await client.for_kind(type(obj)).create(obj)


async def is_gone(client: Client, namespace: str) -> bool:
    try:
        await client.for_kind(Namespace).get(namespace)
    except errors.NotFound:
        return True
    return False


@pytest.mark.usefixtures("_no_warnings")
async def test_creating_and_deleting_workloads_logs_no_warning() -> None:
    clock = VirtualClock()
    async with Cluster(clock=clock, nodes=NODES) as cluster:
        await clock.advance(5)
        client = cluster.client
        for number in range(ROUNDS):
            namespace = f"life-{number}"
            await create_all(client, namespace)
            await clock.advance(90 if number == 0 else 5)
            if number == 1:  # before all pods have started
                for kind in (Deployment, StatefulSet, Job):
                    await client.for_kind(kind).delete(kind.__name__.lower(), namespace)
            await client.for_kind(Namespace).delete(namespace)
            await clock.advance(60)
            assert await is_gone(client, namespace)
            assert not (await client.for_kind(Pod).list(Selection(namespace=namespace))).items


@pytest.mark.usefixtures("_no_warnings")
async def test_deleting_namespaces_during_creation_logs_no_warning() -> None:
    clock = VirtualClock()
    async with Cluster(clock=clock, nodes=NODES) as cluster:
        client = cluster.client
        for number in range(ROUNDS):
            await create_all(client, f"short-{number}")
            await client.for_kind(Namespace).delete(f"short-{number}")
        await clock.advance(120)
        for number in range(ROUNDS):
            assert await is_gone(client, f"short-{number}")
