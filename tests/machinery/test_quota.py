from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import PersistentVolumeClaim, Service
from sampan.machinery.quota import QuotaEvaluator, claim_usage, count_name, evaluator_of, pod_usage, service_usage
from tests.apiserver.pods import pod, spec_with_container

NOW = 1_700_000_000.0
DELETION_TIME = "2023-11-14T22:13:00Z"  # 20 s before NOW


def texts(usage: dict[str, Any]) -> dict[str, str]:
    return {name: str(amount) for name, amount in usage.items() if amount}


def evaluator(group: str, plural: str) -> QuotaEvaluator:
    evaluator = evaluator_of(group, plural)
    assert evaluator is not None
    return evaluator


@pytest.mark.parametrize(
    ("spec", "used"),
    [
        ({}, {}),
        (
            spec_with_container(resources={"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}),
            {"cpu": "1", "requests.cpu": "1", "limits.cpu": "2", "memory": "1Gi", "requests.memory": "1Gi"},
        ),
        (
            spec_with_container(
                resources={"requests": {"example.com/gpu": "2", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1"}}
            ),
            {
                "requests.example.com/gpu": "2",
                "hugepages-2Mi": "4Mi",
                "requests.hugepages-2Mi": "4Mi",
                "ephemeral-storage": "1",
                "requests.ephemeral-storage": "1",
            },
        ),
        (
            {
                "overhead": {"cpu": "100m"},
                **spec_with_container(resources={"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}),
            },
            {"cpu": "1100m", "requests.cpu": "1100m", "limits.memory": "1Gi"},
        ),
    ],
)
def test_pod_usage(spec: dict[str, Any], used: dict[str, str]) -> None:
    assert texts(pod_usage(pod(spec), NOW)) == {"count/pods": "1", "pods": "1", **used}


@pytest.mark.parametrize(
    ("phase", "metadata", "counts"),
    [
        ("Running", {}, True),
        ("Succeeded", {}, False),
        ("Failed", {}, False),
        ("Running", {"deletionTimestamp": DELETION_TIME, "deletionGracePeriodSeconds": 30}, True),
        ("Running", {"deletionTimestamp": DELETION_TIME, "deletionGracePeriodSeconds": 10}, False),
    ],
)
def test_terminated_pods_use_only_the_object_count(phase: str, metadata: dict[str, Any], counts: bool) -> None:
    new_pod = pod(**metadata)
    new_pod.status.phase = phase
    assert texts(pod_usage(new_pod, NOW)) == ({"count/pods": "1", "pods": "1"} if counts else {"count/pods": "1"})


@pytest.mark.parametrize(
    ("spec", "node_ports", "balancers"),
    [
        ({"type": "ClusterIP"}, 0, 0),
        ({"type": "NodePort"}, 2, 0),
        ({"type": "LoadBalancer"}, 2, 1),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, 1, 1),
    ],
)
def test_service_usage(spec: dict[str, Any], node_ports: int, balancers: int) -> None:
    ports = [{"name": "a", "port": 1, "nodePort": 30001}, {"name": "b", "port": 2}]
    used = service_usage(codec.from_value({"spec": {"ports": ports, **spec}}, Service), NOW)
    assert {name: amount.value() for name, amount in used.items()} == {
        "services": 1,
        "count/services": 1,
        "services.nodeports": node_ports,
        "services.loadbalancers": balancers,
    }


def test_claim_usage_counts_for_its_storage_class() -> None:
    value = {
        "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1500m"}}},
        "status": {"allocatedResources": {"storage": "1"}},
    }
    assert texts(claim_usage(codec.from_value(value, PersistentVolumeClaim), NOW)) == {
        "persistentvolumeclaims": "1",
        "count/persistentvolumeclaims": "1",
        "requests.storage": "2",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "fast.storageclass.storage.k8s.io/requests.storage": "2",
    }


@pytest.mark.parametrize(
    ("group", "plural", "names"),
    [
        ("", "pods", {"pods", "requests.cpu", "requests.example.com/gpu", "hugepages-2Mi", "count/pods"}),
        ("", "services", {"services", "count/services"}),
        ("", "configmaps", {"configmaps", "count/configmaps"}),
        ("apps", "deployments", {"count/deployments.apps"}),
        ("", "persistentvolumeclaims", {"requests.storage", "x.storageclass.storage.k8s.io/requests.storage"}),
    ],
)
def test_quota_names_that_apply_to_a_resource(group: str, plural: str, names: set[str]) -> None:
    hard = {
        *("pods", "requests.cpu", "requests.example.com/gpu", "hugepages-2Mi", "count/pods", "services"),
        *("count/services", "configmaps", "count/configmaps", "count/deployments.apps", "requests.storage"),
        *("x.storageclass.storage.k8s.io/requests.storage", "count/configmaps.example.com"),
    }
    assert evaluator(group, plural).names_in(hard) == names


def test_events_and_reviews_are_not_counted() -> None:
    assert evaluator_of("", "events") is None
    assert evaluator_of("authorization.k8s.io", "localsubjectaccessreviews") is None
    assert count_name("apps", "deployments") == "count/deployments.apps"


def test_containers_must_specify_resources_with_a_quota() -> None:
    missing = evaluator("", "pods").missing
    names = frozenset({"cpu", "limits.memory", "pods", "ephemeral-storage"})
    spec = {
        "containers": [
            {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}},
            {"name": "d", "image": "x"},
        ],
        "initContainers": [{"name": "b", "image": "x", "resources": {"limits": {"memory": "1"}}}],
    }
    assert missing(pod(spec), names) == "must specify cpu for: b,d; limits.memory for: c,d"
    assert missing(pod({**spec, "resources": {"requests": {"cpu": "1"}}}), names) == ""
    assert missing(pod(spec), frozenset({"pods"})) == ""
