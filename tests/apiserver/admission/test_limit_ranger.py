from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import LimitRange, PersistentVolumeClaim
from sampan.apiserver.admission.limit_ranger import (
    ANNOTATION,
    claim_violations,
    pod_violations,
    set_default_resources,
)
from tests.apiserver.cluster import NAMESPACE, Cluster, run_in_cluster
from tests.apiserver.pods import pod, spec_with_container


def limit_range(*limits: dict[str, Any]) -> LimitRange:
    return codec.from_value({"kind": "LimitRange", "apiVersion": "v1", "spec": {"limits": list(limits)}}, LimitRange)


def resources(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None) -> dict[str, Any]:
    return {"requests": requests or {}, "limits": limits or {}}


@pytest.mark.parametrize(
    ("bounds", "container_resources", "expected"),
    [
        ({"min": {"cpu": "1"}}, resources({"cpu": "1"}), []),
        ({"min": {"cpu": "1"}}, resources(), ["minimum cpu usage per Container is 1.  No request is specified"]),
        (
            {"min": {"cpu": "1"}},
            resources({"cpu": "999m"}),
            ["minimum cpu usage per Container is 1, but request is 999m"],
        ),
        (
            {"min": {"cpu": "1"}},
            resources({"cpu": "1"}, {"cpu": "500m"}),
            ["minimum cpu usage per Container is 1, but limit is 500m"],
        ),
        ({"max": {"cpu": "1"}}, resources(), ["maximum cpu usage per Container is 1.  No limit is specified"]),
        (
            {"max": {"cpu": "1"}},
            resources({}, {"cpu": "1001m"}),
            ["maximum cpu usage per Container is 1, but limit is 1001m"],
        ),
        (
            {"max": {"cpu": "1"}},
            resources({"cpu": "2"}, {"cpu": "1"}),
            ["maximum cpu usage per Container is 1, but request is 2"],
        ),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, resources({"cpu": "1"}, {"cpu": "2"}), []),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            resources({"cpu": "1"}, {"cpu": "3"}),
            ["cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"],
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            resources({}, {"cpu": "3"}),
            ["cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"],
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            resources({"cpu": "3"}),
            ["cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"],
        ),
        ({"max": {"memory": "16E"}}, resources({}, {"memory": "8Ei"}), []),
    ],
)
def test_container_min_max_and_ratio_violations(
    bounds: dict[str, Any], container_resources: dict[str, Any], expected: list[str]
) -> None:
    violations = pod_violations(
        pod(spec_with_container(resources=container_resources)), limit_range({"type": "Container", **bounds})
    )
    assert violations == expected


def test_pod_maximum_applies_to_sum_of_containers_or_to_pod_level_resources() -> None:
    spec: dict[str, Any] = {
        "containers": [
            {"name": name, "image": "x", "resources": resources({"cpu": "600m"}, {"cpu": "600m"})} for name in "ab"
        ]
    }
    bounds = limit_range({"type": "Pod", "max": {"cpu": "1"}})
    assert pod_violations(pod(spec), bounds) == ["maximum cpu usage per Pod is 1, but limit is 1200m"]
    assert pod_violations(pod({**spec, "resources": resources({"cpu": "1"}, {"cpu": "1"})}), bounds) == []


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("1Gi", []),
        ("3Gi", ["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"]),
        ("1Mi", ["minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"]),
    ],
)
def test_claim_storage_min_and_max_violations(size: str, expected: list[str]) -> None:
    value = {"spec": {"resources": {"requests": {"storage": size}}}}
    claim = codec.from_value(value, PersistentVolumeClaim)
    bounds = limit_range({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}})
    assert claim_violations(claim, bounds) == expected


def test_missing_requests_and_limits_are_defaulted_and_listed_in_annotation() -> None:
    new_pod = pod(
        {
            "containers": [{"name": "c", "image": "x", "resources": resources({"cpu": "1"})}],
            "initContainers": [{"name": "i", "image": "x"}],
        }
    )
    defaults = {"default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "1", "memory": "1Mi"}}
    set_default_resources(new_pod, limit_range({"type": "Container", **defaults}, {"type": "Pod", "max": {"cpu": "9"}}))
    assert new_pod.spec.containers is not None
    assert new_pod.spec.containers[0].resources.requests == {"cpu": "1", "memory": "1Mi"}
    assert new_pod.spec.initContainers[0].resources.limits == {"cpu": "2", "memory": "1Gi"}
    assert new_pod.metadata.annotations[ANNOTATION] == (
        "LimitRanger plugin set: memory request for container c; cpu, memory limit for container c; "
        "cpu, memory request for init container i; cpu, memory limit for init container i"
    )


def test_annotation_is_absent_without_defaults() -> None:
    new_pod = pod()
    set_default_resources(new_pod, limit_range({"type": "Container", "max": {"cpu": "9"}}))
    assert ANNOTATION not in new_pod.metadata.annotations


def test_new_pod_gets_default_limit_and_is_rejected_above_maximum() -> None:
    async def work(cluster: Cluster) -> None:
        limits = [{"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "500m"}}]
        await cluster.make(f"{NAMESPACE}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}})
        created = await cluster.create_pod()
        assert created["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}}
        assert await cluster.try_create_pod(spec_with_container(resources={"limits": {"cpu": "2"}})) == (
            403,
            'pods "a" is forbidden: maximum cpu usage per Container is 1, but limit is 2',
        )

    run_in_cluster(work)
