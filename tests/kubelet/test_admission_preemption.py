"""Preemption of pods by the kubelet for critical pods."""

from typing import Any

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod, ResourceRequirements
from sampan.kubelet.admission import no_victims_failure, select_victims
from sampan.testing import builders
from tests.controllers.cluster import Cluster, cluster


def pod(name: str, cpu: str = "", *, priority: int = 0, is_guaranteed: bool = False, **spec: Any) -> Pod:
    amounts = {"cpu": cpu, "memory": "1Mi"} if cpu else {}
    resources = {"requests": amounts, **({"limits": amounts} if is_guaranteed else {})}
    container = {"name": "c", "image": "i", "resources": resources}
    value = {"metadata": {"name": name, "uid": name}, "spec": {"containers": [container], "priority": priority, **spec}}
    return json.from_value(value, Pod)


CRITICAL = pod("critical", "1", priority=2_000_000_000)


def victim_names(others: list[Pod], lacking: dict[str, int]) -> list[str] | None:
    pods = select_victims(CRITICAL, others, lacking)
    return [pod.metadata.name for pod in pods] if pods is not None else None


def test_smallest_sufficient_pods_are_preempted() -> None:
    others = [pod("small", "100m"), pod("right", "500m"), pod("large", "2")]
    assert victim_names(others, {"cpu": 400}) == ["right"]
    assert victim_names(others, {"cpu": 2200}) == ["large", "right"]


def test_guaranteed_pods_are_preempted_last() -> None:
    others = [pod("safe", "1", is_guaranteed=True), pod("burstable", "1")]
    assert victim_names(others, {"cpu": 900}) == ["burstable"]
    assert victim_names(others, {"cpu": 1900}) == ["burstable", "safe"]


def test_best_effort_pod_is_preempted_for_a_pod_slot() -> None:
    assert victim_names([pod("burstable", "1"), pod("best-effort")], {"pods": 1}) == ["best-effort"]


def test_critical_pods_are_not_preempted() -> None:
    others = [pod("other", "1", priority=2_000_000_000), pod("little", "100m")]
    assert victim_names(others, {"cpu": 900}) is None
    assert no_victims_failure({"cpu": 900}).message.endswith(
        "no set of running pods found to reclaim resources: [(res: cpu, q: 900), ]"
    )


async def test_node_preempts_pods_for_a_critical_pod() -> None:
    async def create_pod(c: Cluster, name: str, cpu: str, priority: str = "", **annotations: str) -> None:
        pod = builders.pod(name, node="node-0", namespace="default")
        pod.metadata.annotations = {f"kubernetes.io/config.{key}": value for key, value in annotations.items()}
        pod.spec.priorityClassName = priority
        (pod.spec.containers or [])[0].resources = ResourceRequirements(requests={"cpu": cpu})
        await c.client.for_kind(Pod).create(pod)
        await c.clock.settle()

    async with cluster() as c, c.running("serviceaccount-controller"), c.nodes("node-0"):
        await create_pod(c, "modest", "1")
        await create_pod(c, "large", "30")
        await create_pod(
            c, "pretender", "20", source="file"
        )  # the annotation does not make a pod of the API server static
        await create_pod(c, "vital", "20", "system-node-critical")
        pods = {obj.metadata.name: obj.status for obj in (await c.client.for_kind(Pod).list()).items}
        assert {name: status.phase for name, status in pods.items()} == {
            "modest": "Running",
            "large": "Failed",
            "pretender": "Failed",
            "vital": "Running",
        }
        assert pods["pretender"].reason == "OutOfcpu"
        victim = pods["large"]
        assert (victim.reason, victim.message) == ("Preempting", "Preempted in order to admit critical pod")
        (target,) = [condition for condition in victim.conditions if condition.type == "DisruptionTarget"]
        assert target.message == "Pod was preempted by Kubelet to accommodate a critical pod."
