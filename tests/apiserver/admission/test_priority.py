from typing import Any

import pytest

from tests.apiserver.cluster import PODS, Cluster, run_in_cluster

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def create_priority_class(cluster: Cluster, name: str, value: int, **fields: Any) -> Any:
    return await cluster.make(CLASSES, {"metadata": {"name": name}, "value": value, **fields})


def admitted_priority(spec: dict[str, Any]) -> tuple[Any, Any, Any]:
    return spec.get("priorityClassName"), spec["priority"], spec["preemptionPolicy"]


def test_without_a_class_the_priority_is_zero() -> None:
    async def work(cluster: Cluster) -> None:
        assert admitted_priority((await cluster.create_pod())["spec"]) == (None, 0, "PreemptLowerPriority")

    run_in_cluster(work)


def test_a_pod_has_the_priority_of_its_class() -> None:
    async def work(cluster: Cluster) -> None:
        await create_priority_class(cluster, "high", 7, preemptionPolicy="Never")
        created = await cluster.create_pod(spec={"priorityClassName": "high", "priority": 7})
        assert admitted_priority(created["spec"]) == ("high", 7, "Never")

    run_in_cluster(work)


def test_global_default_class_is_unique_and_applies_to_pods_without_class() -> None:
    async def work(cluster: Cluster) -> None:
        await create_priority_class(cluster, "usual", 3, globalDefault=True)
        assert admitted_priority((await cluster.create_pod())["spec"]) == ("usual", 3, "PreemptLowerPriority")
        reply = await cluster.send("POST", CLASSES, {"metadata": {"name": "b"}, "value": 1, "globalDefault": True})
        assert reply.code == 403
        assert reply.json["message"].endswith(
            "PriorityClass usual is already marked as default. Only one default can exist"
        )
        assert (await cluster.patch(f"{CLASSES}/usual", {"description": "x"})).code == 200

    run_in_cluster(work)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        (
            {"priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller "
            "computed 0 "
            "from the given PriorityClass name",
        ),
        (
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission "
            "controller "
            "computed PreemptLowerPriority from the given PriorityClass name",
        ),
    ],
)
def test_invalid_pod_priorities_are_rejected(spec: dict[str, Any], text: str) -> None:
    async def work(cluster: Cluster) -> None:
        assert await cluster.try_create_pod(spec) == (403, f'pods "a" is forbidden: {text}')

    run_in_cluster(work)


def test_update_without_priority_keeps_stored_priority() -> None:
    async def work(cluster: Cluster) -> None:
        created = await cluster.create_pod()
        for field in ("priority", "preemptionPolicy"):
            del created["spec"][field]
        reply = await cluster.send("PUT", f"{PODS}/a", created)
        assert reply.code == 200
        assert admitted_priority(reply.json["spec"]) == (None, 0, "PreemptLowerPriority")

    run_in_cluster(work)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            {"metadata": {"name": "a"}, "value": 1_000_000_001},
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
        ),
        (
            {"metadata": {"name": "system-x"}, "value": 1},
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
            "error: "
            "system-x is not a known system priority class",
        ),
        (
            {"metadata": {"name": "system-node-critical"}, "value": 1},
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
            "error: "
            "value of system-node-critical PriorityClass must be 2000001000",
        ),
    ],
)
def test_invalid_priority_classes_are_rejected(body: dict[str, Any], text: str) -> None:
    async def work(cluster: Cluster) -> None:
        reply = await cluster.send("POST", CLASSES, body)
        assert reply.code == 422
        assert reply.json["message"].endswith(text)

    run_in_cluster(work)


def test_a_priority_class_is_immutable() -> None:
    async def work(cluster: Cluster) -> None:
        await create_priority_class(cluster, "high", 7)
        reply = await cluster.patch(f"{CLASSES}/high", {"value": 8, "preemptionPolicy": "Never"})
        assert [cause["message"] for cause in reply.json["details"]["causes"]] == [
            "Forbidden: may not be changed in an update.",
            'Invalid value: "Never": field is immutable',
        ]

    run_in_cluster(work)
