"""Room for pods that a node cannot be without."""

from typing import Any

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod, ResourceRequirements
from sampan.kubelet.admission import no_victims_failure, victims
from sampan.testing import builders
from tests.controllers.cluster import Cluster, cluster


def pod(name: str, cpu: str = "", *, priority: int = 0, is_guaranteed: bool = False, **spec: Any) -> Pod:
    amounts = {"cpu": cpu, "memory": "1Mi"} if cpu else {}
    resources = {"requests": amounts, **({"limits": amounts} if is_guaranteed else {})}
    container = {"name": "c", "image": "i", "resources": resources}
    value = {"metadata": {"name": name, "uid": name}, "spec": {"containers": [container], "priority": priority, **spec}}
    return json.from_value(value, Pod)


CRITICAL = pod("critical", "1", priority=2_000_000_000)


def names(others: list[Pod], lacking: dict[str, int]) -> list[str] | None:
    pods = victims(CRITICAL, others, lacking)
    return [pod.metadata.name for pod in pods] if pods is not None else None


def test_the_nearest_that_is_large_enough_goes() -> None:
    others = [pod("small", "100m"), pod("right", "500m"), pod("large", "2")]
    assert names(others, {"cpu": 400}) == ["right"]
    assert names(others, {"cpu": 2200}) == ["large", "right"]


def test_guaranteed_pods_go_only_if_the_others_are_not_enough() -> None:
    others = [pod("safe", "1", is_guaranteed=True), pod("burstable", "1")]
    assert names(others, {"cpu": 900}) == ["burstable"]
    assert names(others, {"cpu": 1900}) == ["burstable", "safe"]


def test_one_place_among_the_pods_is_had_from_the_least() -> None:
    assert names([pod("burstable", "1"), pod("best-effort")], {"pods": 1}) == ["best-effort"]


def test_as_critical_pods_stay() -> None:
    others = [pod("other", "1", priority=2_000_000_000), pod("little", "100m")]
    assert names(others, {"cpu": 900}) is None
    assert no_victims_failure({"cpu": 900}).message.endswith(
        "no set of running pods found to reclaim resources: [(res: cpu, q: 900), ]"
    )


async def test_a_node_ends_pods_for_one_that_it_cannot_be_without() -> None:
    async def wanting(c: Cluster, name: str, cpu: str, priority: str = "", **notes: str) -> None:
        pod = builders.pod(name, node="node-0", namespace="default")
        pod.metadata.annotations = {f"kubernetes.io/config.{key}": value for key, value in notes.items()}
        pod.spec.priorityClassName = priority
        (pod.spec.containers or [])[0].resources = ResourceRequirements(requests={"cpu": cpu})
        await c.client.of(Pod).create(pod)
        await c.clock.settle()

    async with cluster() as c, c.running("serviceaccount-controller"), c.nodes("node-0"):
        await wanting(c, "modest", "1")
        await wanting(c, "large", "30")
        await wanting(c, "pretender", "20", source="file")  # whose pods are the node's own is for the node to say
        await wanting(c, "vital", "20", "system-node-critical")
        pods = {obj.metadata.name: obj.status for obj in (await c.client.of(Pod).list()).items}
        assert {name: status.phase for name, status in pods.items()} == {
            "modest": "Running",
            "large": "Failed",
            "pretender": "Failed",
            "vital": "Running",
        }
        assert pods["pretender"].reason == "OutOfcpu"
        preemptor = pods["large"]
        assert (preemptor.reason, preemptor.message) == ("Preempting", "Preempted in order to admit critical pod")
        (target,) = [condition for condition in preemptor.conditions if condition.type == "DisruptionTarget"]
        assert target.message == "Pod was preempted by Kubelet to accommodate a critical pod."
