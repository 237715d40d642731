"""Heartbeats of nodes, and the taints that node conditions call for."""

from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.semantics.taints import NO_EXECUTE, NO_SCHEDULE
from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import Node, Pod
from sampan.api.values import times
from sampan.controllers.nodes.health import NodeHealth, mark_unknown, observe
from sampan.controllers.nodes.lifecycle import missing_deprecated_labels
from sampan.controllers.nodes.pods import pod_condition_patch
from sampan.controllers.nodes.taints import diff_scheduling_taints, update_taints
from tests.apiserver.pods import pod_value
from tests.controllers.nodes.fleet import condition, node_value

T = 1_767_225_600.0


def node(*conditions: dict[str, Any], **spec: Any) -> Node:
    value = node_value("n", **spec)
    value["metadata"]["creationTimestamp"] = times.format_time(T - 100)
    return codec.from_value({**value, "status": {"conditions": list(conditions)}}, Node)


def ready(at: float = T, status: str = "True") -> dict[str, Any]:
    return condition("Ready", status, at)


def lease(at: float) -> Lease:
    return codec.from_value({"metadata": {"name": "n"}, "spec": {"renewTime": times.format_micro_time(at)}}, Lease)


def health_seen(seen_at: float, heartbeat: float | None = None, renewed: float | None = None) -> NodeHealth:
    return NodeHealth(
        seen_at=seen_at,
        has_ready=heartbeat is not None,
        heartbeat=times.format_time(heartbeat) if heartbeat is not None else None,
        renewed=times.format_micro_time(renewed) if renewed is not None else None,
    )


@pytest.mark.parametrize(
    ("last", "node", "renewed", "seen_at"),
    [
        (None, node(), None, T - 100),
        (None, node(), T - 50, T + 7),
        (None, node(ready()), None, T + 7),
        (health_seen(T, T), node(ready()), None, T),
        (health_seen(T, T), node(ready(T + 5)), None, T + 7),
        (health_seen(T, T), node(), None, T + 7),
        (health_seen(T), node(ready()), None, T + 7),
        (health_seen(T, T, T), node(ready()), T, T),
        (health_seen(T, T, T), node(ready()), T + 1, T + 7),
        pytest.param(health_seen(T, T, T), node(ready()), T - 1, T + 7, id="node clock set back"),
        (health_seen(T, T), node(ready()), T - 900, T + 7),
    ],
)
def test_last_heartbeat_of_status_or_lease(
    last: NodeHealth | None, node: Node, renewed: float | None, seen_at: float
) -> None:
    node_lease = lease(renewed) if renewed is not None else None
    health = observe(last, node, node_lease, now=T + 7)
    assert health.seen_at == seen_at
    assert observe(health, node, node_lease, now=T + 60) is health, "an unchanged node has a new Health"


def test_conditions_of_a_silent_node_become_unknown() -> None:
    new_node = node(ready(), condition("DiskPressure", "False", T), condition("NetworkUnavailable", "False", T))
    marked = mark_unknown(new_node, T + 60)
    assert marked is not None
    assert [(condition.type, condition.status, condition.reason) for condition in marked.status.conditions] == [
        ("Ready", "Unknown", "NodeStatusUnknown"),
        ("DiskPressure", "Unknown", "NodeStatusUnknown"),
        ("NetworkUnavailable", "False", ""),
        ("MemoryPressure", "Unknown", "NodeStatusNeverUpdated"),
        ("PIDPressure", "Unknown", "NodeStatusNeverUpdated"),
    ]
    assert marked.status.conditions[0].lastHeartbeatTime == times.format_time(T)
    assert marked.status.conditions[0].lastTransitionTime == times.format_time(T + 60)
    assert new_node.status.conditions[0].status == "True", "the cached object was changed"
    assert mark_unknown(marked, T + 90) is None


SCHEDULE = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("node", "add", "remove"),
    [
        (node(ready()), [], []),
        (node(ready(status="False")), ["not-ready"], []),
        (node(ready(status="Unknown")), ["unreachable"], []),
        (node(ready(status="False"), taints=[SCHEDULE]), [], []),
        (node(ready(), taints=[SCHEDULE]), [], ["not-ready"]),
        (node(ready(status="Unknown"), taints=[SCHEDULE]), ["unreachable"], ["not-ready"]),
        (node(ready(), taints=[{**SCHEDULE, "effect": "NoExecute"}]), [], []),
        (node(ready(), taints=[{"key": "mine", "effect": "NoSchedule"}]), [], []),
        (node(ready(), condition("PIDPressure", "True", T), unschedulable=True), ["pid-pressure", "unschedulable"], []),
        (node(condition("MemoryPressure", "Unknown", T)), [], []),
    ],
)
def test_taints_by_condition(node: Node, add: list[str], remove: list[str]) -> None:
    prefix = "node.kubernetes.io/"
    expected = ([prefix + key for key in add], [prefix + key for key in remove])
    assert diff_scheduling_taints(node) == expected


def test_taints_are_added_renewed_and_removed() -> None:
    before = node(taints=[{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}]).spec.taints
    after = update_taints(before, NO_EXECUTE, add=("a", "b"), now=T)
    assert [(taint.key, taint.effect, taint.timeAdded) for taint in after] == [
        ("a", "NoExecute", times.format_time(T)),
        ("a", "NoSchedule", None),
        ("b", "NoExecute", times.format_time(T)),
    ]
    assert [(taint.key, taint.effect) for taint in update_taints(after, NO_SCHEDULE, remove=("a",), now=T)] == [
        ("a", "NoExecute"),
        ("b", "NoExecute"),
    ]
    assert update_taints(before, NO_EXECUTE, remove=("none",), now=T) == before


def test_pod_condition_patch_is_none_without_a_change() -> None:
    value = pod_value(uid="u")
    value["status"] = {"conditions": [{"type": "Ready", "status": "True", "reason": "x"}]}
    pod = codec.from_value(value, Pod)
    assert pod_condition_patch(pod, "Ready", T, status="False") == {
        "metadata": {"uid": "u"},
        "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": times.format_time(T)}]},
    }
    assert pod_condition_patch(pod, "Ready", T, status="True", reason="x") is None
    patch = pod_condition_patch(pod, "Ready", T, status="True", reason="y")
    assert patch is not None
    assert "lastTransitionTime" not in patch["status"]["conditions"][0]


@pytest.mark.parametrize(
    ("labels", "missing"),
    [
        ({}, {}),
        ({"kubernetes.io/os": "linux"}, {"beta.kubernetes.io/os": "linux"}),
        ({"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"}, {}),
        ({"kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "x"}, {"beta.kubernetes.io/arch": "arm64"}),
        ({"beta.kubernetes.io/arch": "x"}, {}),
    ],
)
def test_deprecated_labels_are_copied_from_current_labels(labels: dict[str, str], missing: dict[str, str]) -> None:
    assert missing_deprecated_labels(codec.from_value(node_value("n", labels=labels), Node)) == missing
