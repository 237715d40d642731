"""Resources that a pod occupies during an in-place resize."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import (
    Container,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import quantity
from sampan.scheduler.cache.pod_info import PodInfoTable, spec_with_occupied_resources
from tests.scheduler.running_scheduler import NAMESPACE, running_scheduler

amounts = st.fixed_dictionaries({}, optional={"cpu": st.sampled_from(["1", "2", "1500m"]), "memory": st.just("1Gi")})
reported = st.one_of(st.none(), amounts)


def resized_pod(
    desired: dict[str, str], actual: dict[str, str] | None, allocated: dict[str, str], reason: str = ""
) -> Pod:
    resources = ResourceRequirements(requests=actual) if actual is not None else None
    status = ContainerStatus(name="c", resources=resources, allocatedResources=allocated)
    conditions = [PodCondition(type="PodResizePending", status="True", reason=reason)] if reason else []
    return Pod(
        metadata=ObjectMeta(name="p", namespace="x", uid="p"),
        spec=PodSpec(containers=[Container(name="c", resources=ResourceRequirements(requests=desired))]),
        status=PodStatus(containerStatuses=[status], conditions=conditions),
    )


def occupied_sum(pod: Pod, name: str) -> int:
    """The occupied amount of a resource without pod-level requests: CPU in millicores, memory in bytes."""
    is_infeasible = any(condition.reason == "Infeasible" for condition in pod.status.conditions)
    sums = [0, 0, 0]
    for container in pod.spec.containers or ():
        status = next(status for status in pod.status.containerStatuses if status.name == container.name)
        requested = container.resources.requests
        allocated = status.allocatedResources or ({} if is_infeasible else requested)
        actual = status.resources.requests if status.resources is not None else {}
        for index, requests in enumerate((requested, allocated, actual or allocated)):
            amount = quantity.parse(requests.get(name, "0"))
            sums[index] += amount.milli_value() if name == "cpu" else amount.value()
    return max(sums[1:] if is_infeasible else sums)


@given(amounts, reported, amounts, amounts, reported, amounts, st.sampled_from(["", "Deferred", "Infeasible"]))
def test_highest_sum_of_desired_actual_and_allocated_requests_counts(
    desired: dict[str, str],
    actual: Any,
    allocated: dict[str, str],
    other_desired: dict[str, str],
    other_actual: Any,
    other_allocated: dict[str, str],
    reason: str,
) -> None:
    assume(reason != "Infeasible" or (allocated and other_allocated))
    pod, other = (
        resized_pod(desired, actual, allocated, reason),
        resized_pod(other_desired, other_actual, other_allocated),
    )
    assert pod.spec.containers
    assert other.spec.containers
    other.spec.containers[0].name = other.status.containerStatuses[0].name = "d"
    pod.spec.containers += other.spec.containers
    pod.status.containerStatuses += other.status.containerStatuses
    expected = {name: amount for name in ("cpu", "memory") if (amount := occupied_sum(pod, name))}
    assert PodInfoTable().info(pod).signature.requests == expected


both_amounts = st.fixed_dictionaries({"cpu": st.sampled_from(["1", "2"]), "memory": st.sampled_from(["1Gi", "2Gi"])})


@given(both_amounts, st.one_of(st.none(), both_amounts), both_amounts, st.sampled_from(["", "Infeasible"]))
def test_highest_of_pod_level_requests_counts(
    desired: dict[str, str], actual: Any, allocated: dict[str, str], reason: str
) -> None:
    """The requests of containers do not count beside pod-level requests."""
    pod = resized_pod({"cpu": "100m", "memory": "1Mi"}, None, {}, reason)
    pod.spec.resources = ResourceRequirements(requests=desired)
    pod.status.resources = ResourceRequirements(requests=actual) if actual is not None else None
    pod.status.allocatedResources = allocated if actual is not None else {}
    lists = [desired] if actual is None else [actual, allocated] if reason else [desired, actual, allocated]
    assert PodInfoTable().info(pod).signature.requests == {
        "cpu": max(quantity.parse(amounts_["cpu"]).milli_value() for amounts_ in lists),
        "memory": max(quantity.parse(amounts_["memory"]).value() for amounts_ in lists),
    }


def test_spec_without_a_resize_is_not_copied() -> None:
    pod = resized_pod({"cpu": "1"}, {"cpu": "1"}, {"cpu": "1"})
    assert spec_with_occupied_resources(pod) is pod.spec


@pytest.mark.parametrize(("reason", "is_free"), [("Deferred", False), ("Infeasible", True)])
async def test_pending_resize_occupies_the_node_unless_infeasible(reason: str, is_free: bool) -> None:
    """A higher request occupies the node immediately, unless the resize is infeasible."""
    async with running_scheduler() as cluster:
        await cluster.node("a", cpu="4")
        await cluster.create(cluster.pod("p", cpu="1"))
        assert await cluster.find_nodes("p") == ["a"]
        pods = cluster.cluster.client.for_kind(Pod)
        status = {
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": True,
                    "restartCount": 0,
                    "image": "pause",
                    "imageID": "",
                    "resources": {"requests": {"cpu": "1"}},
                    "allocatedResources": {"cpu": "1"},
                }
            ]
        }
        pod = await pods.get("p", NAMESPACE)
        assert pod.spec.containers
        name = pod.spec.containers[0].name
        status["containerStatuses"][0]["name"] = name
        await pods.patch("p", {"status": status}, NAMESPACE, subresource="status")
        more = {"spec": {"containers": [{"name": name, "resources": {"requests": {"cpu": "3"}}}]}}
        await pods.patch("p", more, NAMESPACE, subresource="resize")
        pending = {"type": "PodResizePending", "status": "True", "reason": reason}
        await pods.patch("p", {"status": {"conditions": [pending]}}, NAMESPACE, subresource="status")
        await cluster.settle()
        await cluster.create(cluster.pod("q", cpu="2"))
        assert await cluster.find_nodes("q") == (["a"] if is_free else [""])
