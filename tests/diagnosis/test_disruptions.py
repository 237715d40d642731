"""Why pods are preempted, evicted, or protected by a disruption budget."""

from typing import Any

import pytest

from sampan.diagnosis.disruptions import (
    budget_lines,
    disruption_lines,
    node_of_deleted,
    request_lines,
    taint_lines,
    victim_lines,
)


def pod(*, phase: str = "Running", priority: int = 0, conditions: Any = (), **status: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "ns", "uid": "u1", "labels": {"app": "web"}}
    spec = {"nodeName": "node-0", "priority": priority}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, "conditions": list(conditions), **status}}


def disruption_condition(reason: str, message: str = "") -> dict[str, Any]:
    return {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}


READY = {"type": "Ready", "status": "True"}
PREEMPTION = {
    "reason": "Preempted",
    "message": "Preempted by pod u9 on node node-0",
    "involvedObject": {"namespace": "ns", "name": "low"},
    "related": {"namespace": "ns", "name": "high", "uid": "u1"},
}


@pytest.mark.parametrize(
    ("value", "events", "text"),
    [
        (pod(), [], None),
        (pod(), [PREEMPTION], "preempted by pod ns/high to make room on node-0"),
        (None, [PREEMPTION | {"related": None}], "preempted by a pod of higher priority to make room on node-0"),
        (
            pod(conditions=[disruption_condition("EvictionByEvictionAPI", "Eviction API: evicting")]),
            [],
            "evicted by a request to the eviction API, such as `kubectl drain`: Eviction API: evicting",
        ),
        (
            pod(
                phase="Failed",
                reason="Evicted",
                message="The node was low on resource: memory.",
                conditions=[disruption_condition("TerminationByKubelet", "The node was low on resource: memory.")],
            ),
            [],
            "terminated by the kubelet of its node: The node was low on resource: memory.",
        ),
        (
            pod(phase="Failed", reason="Evicted", message="Pod was rejected"),
            [],
            "evicted by the kubelet: Pod was rejected",
        ),
        (
            None,
            [{"reason": "Evicted", "message": "The node was low on resource: memory. "}],
            "Evicted: The node was low on resource: memory.",
        ),
        (
            None,
            [{"reason": "TaintManagerEviction", "message": "Marking for deletion Pod ns/p"}],
            "evicted by a NoExecute taint of its node that it does not tolerate",
        ),
        (None, [{"reason": "TaintManagerEviction", "message": "Cancelling deletion of Pod ns/p"}], None),
    ],
)
def test_disruption_lines_name_the_cause_of_removal(value: Any, events: list[Any], text: str | None) -> None:
    assert disruption_lines(value, events) == ([text] if text else [])


def test_preemption_lines_name_priorities_and_victims() -> None:
    (line,) = disruption_lines(pod(priority=5), [PREEMPTION], preemptor=pod(priority=1000))
    assert line.endswith(": it has priority 1000, this pod 5")
    (line,) = victim_lines(pod(priority=1000), [PREEMPTION, PREEMPTION])
    assert line == "made room on node-0 by preempting pods of a priority below 1000: ns/low"
    assert victim_lines(pod(), [PREEMPTION | {"related": {"uid": "other"}}]) == []


def test_node_and_taints_of_a_deleted_pod() -> None:
    events = [{"reason": "Scheduled", "message": "Successfully assigned ns/p to node-7"}]
    assert (node_of_deleted(events), node_of_deleted([])) == ("node-7", "")
    taints = [{"key": "a", "value": "b", "effect": "NoExecute"}, {"key": "c", "effect": "NoSchedule"}]
    node = {"metadata": {"name": "node-7"}, "spec": {"taints": taints}}
    assert taint_lines(node) == ["taints of node-7 with effect NoExecute: a=b"]


def budget(name: str = "b", *, allowed: int = 0, healthy: int = 1, **spec: Any) -> dict[str, Any]:
    status = {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 1}
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}
    return {"metadata": {"name": name}, "spec": {"selector": selector, **spec}, "status": status}


def test_disruption_budgets_that_block_an_eviction_are_listed() -> None:
    running = pod(conditions=[READY])
    refusal = "eviction requests are refused: PodDisruptionBudget b needs 1 healthy pods and has 1"
    assert budget_lines(running, [budget()]) == [refusal]
    assert budget_lines(running, [budget(allowed=1)]) == []
    assert budget_lines(running, [budget(selector={"matchLabels": {"app": "db"}})]) == []
    assert budget_lines(pod(phase="Pending"), [budget()]) == []
    assert budget_lines(pod(), [budget()]) == []
    assert len(budget_lines(pod(), [budget(healthy=0)])) == 1
    assert budget_lines(pod(), [budget(healthy=0, unhealthyPodEvictionPolicy="AlwaysAllow")]) == []
    assert "several PodDisruptionBudgets select it: a, b" in budget_lines(running, [budget(), budget("a")])[0]


def test_eviction_and_deletion_requests_are_listed_by_user() -> None:
    base: dict[str, Any] = {"component": "apiserver", "actor": "ann", "subject": "pods/ns/p", "outcome": "200"}
    refused = base | {"action": "create", "subject": "pods/ns/p/eviction", "outcome": "429 TooManyRequests"}
    records = [
        base | {"action": "create", "time": 1.0},
        refused | {"time": 2.0},
        refused | {"time": 60.0},
        base | {"action": "delete", "time": 90.0},
        base | {"action": "delete", "time": 91.0, "actor": "system:node:node-0"},
        base | {"action": "delete", "time": 95.0, "outcome": "403 Forbidden", "actor": "bob"},
    ]
    assert request_lines(records, now=100.0) == [
        "ann requested its eviction 40s ago, 2 times: refused by a disruption budget",
        "ann requested its deletion 10s ago",
        "bob requested its deletion 5s ago: refused (Forbidden)",
    ]
