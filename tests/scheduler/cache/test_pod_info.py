"""Pods that are being resized: what they take of their node."""

from typing import Any

import pytest
from hypothesis import given
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
from tests.scheduler.running_scheduler import NAMESPACE, running

amounts = st.fixed_dictionaries({}, optional={"cpu": st.sampled_from(["1", "2", "1500m"]), "memory": st.just("1Gi")})
reported = st.one_of(st.none(), amounts)


def resized(desired: dict[str, str], actual: dict[str, str] | None, granted: dict[str, str], reason: str = "") -> Pod:
    resources = ResourceRequirements(requests=actual) if actual is not None else None
    status = ContainerStatus(name="c", resources=resources, allocatedResources=granted)
    conditions = [PodCondition(type="PodResizePending", status="True", reason=reason)] if reason else []
    return Pod(
        metadata=ObjectMeta(name="p", namespace="x", uid="p"),
        spec=PodSpec(containers=[Container(name="c", resources=ResourceRequirements(requests=desired))]),
        status=PodStatus(containerStatuses=[status], conditions=conditions),
    )


@given(amounts, reported, amounts, st.sampled_from(["", "Deferred", "Infeasible"]))
def test_the_most_counts(desired: dict[str, str], actual: Any, granted: dict[str, str], reason: str) -> None:
    pod = resized(desired, actual, granted, reason)
    lists = [desired] if actual is None else [actual, granted] if reason == "Infeasible" else [desired, actual, granted]
    plain = {}
    for name in ("cpu", "memory"):
        quantities = [quantity.parse(amounts_[name]) for amounts_ in lists if name in amounts_]
        if quantities:
            plain[name] = max(quantities).milli_value() if name == "cpu" else max(quantities).value()
    assert PodInfoTable().info(pod).signature.requests == plain


@given(amounts, reported, amounts, st.sampled_from(["", "Infeasible"]))
def test_of_a_pod_as_a_whole_too(desired: dict[str, str], actual: Any, granted: dict[str, str], reason: str) -> None:
    """Its containers' requests count only for what it does not ask for itself."""
    pod = resized({"cpu": "100m", "memory": "1Mi"}, None, {}, reason)
    pod.spec.resources = ResourceRequirements(requests=desired)
    pod.status.resources = ResourceRequirements(requests=actual) if actual is not None else None
    pod.status.allocatedResources = granted
    lists = [desired] if actual is None else [actual, granted] if reason else [desired, actual, granted]
    plain = {"cpu": 100, "memory": 1024 * 1024}
    for name in desired:
        most = max(
            (quantity.parse(amounts_[name]) for amounts_ in lists if name in amounts_), default=quantity.parse("0")
        )
        plain[name] = most.milli_value() if name == "cpu" else most.value()
    assert PodInfoTable().info(pod).signature.requests == {name: amount for name, amount in plain.items() if amount}


def test_nothing_is_copied_where_nothing_differs() -> None:
    pod = resized({"cpu": "1"}, {"cpu": "1"}, {"cpu": "1"})
    assert spec_with_occupied_resources(pod) is pod.spec


@pytest.mark.parametrize(("reason", "is_free"), [("Deferred", False), ("Infeasible", True)])
async def test_room_while_a_pod_is_resized(reason: str, is_free: bool) -> None:
    """A pod that asks for more takes it at once, unless it can never have it."""

    async with running() as cluster:
        await cluster.node("a", cpu="4")
        await cluster.create(cluster.pod("p", cpu="1"))
        assert await cluster.where("p") == ["a"]
        pods = cluster.cluster.client.of(Pod)
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
        assert await cluster.where("q") == (["a"] if is_free else [""])
