"""The text that `sampan why` prints for an explanation."""

from typing import Any

import pytest

from sampan.cli.why import explanation_text
from sampan.cli.why.workload_pods import problem_conditions, selector_text


def rejection(plugin: str, *reasons: str, final: bool = False) -> dict[str, Any]:
    return {"plugin": plugin, "reasons": list(reasons), "isFinal": final}


UNSCHEDULABLE = {
    "pod": "default/big",
    "scheduler": "default-scheduler",
    "time": 100.0,
    "decision": {"time": 95.0, "attempt": 2, "message": "0/2 nodes are available: …"},
    "waiting": {"queue": "unschedulable", "since": 40.0, "plugins": ["NodeResourcesFit"]},
    "count": 2,
    "filters": ["NodeUnschedulable", "TaintToleration", "NodeResourcesFit"],
    "skipped": ["NodePorts"],
    "nodes": [
        {"name": "a", "fits": False, "refusals": [rejection("NodeResourcesFit", "Insufficient cpu", "Too many pods")]},
        {"name": "b", "fits": False, "refusals": [rejection("TaintToleration", "node(s) had taints", final=True)]},
    ],
}


def test_unschedulable_pod_lists_rejections_by_node() -> None:
    assert [line.rstrip() for line in explanation_text.lines(UNSCHEDULABLE, is_wide=False)] == [
        "last tried 5s ago (attempt 2): 0/2 nodes are available: …",
        "in the queue for 60s (unschedulable); retried when an event concerns the plugins",
        "  NodeResourcesFit",
        "",
        "Now none of 2 nodes is feasible:",
        "",
        "NODE   REJECTED BY        REASON",
        "a      NodeResourcesFit   Insufficient cpu",
        "       NodeResourcesFit   Too many pods",
        "b      TaintToleration    node(s) had taints",
        "",
        "plugins that reject no node: NodeUnschedulable",
    ]


@pytest.mark.parametrize(
    ("resource", "amounts", "text"),
    [
        ("cpu", (64_000, 2_000, 300), "asks 64 cpu; a has 2, 0.3 requested"),
        ("memory", (64 << 30, (4 << 30) + (300 << 20), 256 << 20), "asks 64Gi memory; a has 4.293Gi, 256Mi requested"),
        ("example.com/gpu", (2, 1, 0), "asks 2 example.com/gpu; a has 1, 0 requested"),
        ("pods", (1, 110, 110), "asks 1 pods; a has 110, 110 requested"),
    ],
)
def test_amounts_behind_a_shortage_are_shown(resource: str, amounts: tuple[int, int, int], text: str) -> None:
    request, allocatable, requested = amounts
    shortage = {
        "resource": resource,
        "request": request,
        "node": "a",
        "allocatable": allocatable,
        "requested": requested,
    }
    reason = "Too many pods" if resource == "pods" else f"Insufficient {resource}"
    node = {"name": "a", "refusals": [rejection("NodeResourcesFit", reason)], "fits": False, "shortages": [shortage]}
    value = UNSCHEDULABLE | {"nodes": [node], "count": 1, "shortages": [shortage]}
    assert text in explanation_text.lines(value, is_wide=False)
    wide = explanation_text.lines(value, is_wide=True)
    assert any(f"{reason}: asks {text.split()[1]}, {text.partition('; a ')[2]}" in line for line in wide)


def test_nodes_with_equal_rejections_share_their_lines() -> None:
    cpu, taints = rejection("NodeResourcesFit", "Insufficient cpu"), rejection("TaintToleration", "node(s) had taints")
    nodes = [
        {"name": name, "fits": False, "refusals": refusals}
        for name, refusals in (("a", [cpu]), ("b", [cpu, taints]), ("c", [cpu]), ("d", [cpu]))
    ]
    lines = explanation_text.lines(UNSCHEDULABLE | {"nodes": nodes, "count": 4}, is_wide=False)
    assert [line.rstrip() for line in lines if "   NodeRes" in line or "   Taint" in line] == [
        "a and 2 more   NodeResourcesFit   Insufficient cpu",
        "b              NodeResourcesFit   Insufficient cpu",
        "               TaintToleration    node(s) had taints",
    ]
    wide = explanation_text.lines(UNSCHEDULABLE | {"nodes": nodes, "count": 4}, is_wide=True)
    assert sum("  NodeResourcesFit   Insufficient cpu" in line for line in wide) == 4


def test_wide_output_shows_every_plugin_decision() -> None:
    text = "\n".join(line.rstrip() for line in explanation_text.lines(UNSCHEDULABLE, is_wide=True))
    assert "a      NodeResourcesFit   Insufficient cpu     may help" in text
    assert "b      TaintToleration    node(s) had taints   would not help" in text
    assert "b      ok                  no                ok" in text
    assert text.endswith("plugins that did not apply: NodePorts")


def test_scheduled_pod_shows_node_scores() -> None:
    def node(name: str, total: int, fit: int) -> dict[str, Any]:
        scores = [
            {"plugin": "NodeResourcesFit", "score": fit, "weight": 1},
            {"plugin": "TaintToleration", "score": 100, "weight": 3},
        ]
        return {"name": name, "fits": True, "total": total, "scores": scores}

    explanation = {
        "scheduler": "s",
        "time": 10.0,
        "node": "a",
        "best": "b",
        "count": 30,
        "feasible": 30,
        "decision": {"time": 9.0, "attempt": 1, "node": "a", "score": 370},
        "nodes": [node("a", 350, 50), node("b", 390, 90)],
        "filters": [],
    }
    assert [line.rstrip() for line in explanation_text.lines(explanation, is_wide=False)] == [
        "decided 1s ago (attempt 1): a",
        "",
        "If it were scheduled again now, 30 of 30 nodes are feasible, best b",
        "",
        "NODE   TOTAL   NodeResourcesFit x1",
        "a *    350     50",
        "b      390     90",
        "same score on all nodes: TaintToleration",
        "… and 28 more nodes; -o wide shows more, -o json shows all",
    ]


def test_gated_pods_and_unknown_schedulers() -> None:
    gated = {"scheduler": "s", "time": 10.0, "waiting": {"queue": "gated", "since": 5.0, "gate": "waiting for x"}}
    assert explanation_text.lines(gated, is_wide=False) == ["gated for 5s: waiting for x"]
    simulated = {"scheduler": "s", "time": 10.0, "gate": "waiting for x", "count": 1, "feasible": 1, "best": "a"}
    assert explanation_text.lines(simulated, is_wide=False)[0] == "it would be gated: waiting for x"
    lines_with_notes = explanation_text.lines(simulated | {"notes": ["extender e failed: timeout"]}, is_wide=False)
    assert lines_with_notes[-1] == "extender e failed: timeout"
    (line,) = explanation_text.lines({"scheduler": "other", "isFamiliar": False}, is_wide=False)
    assert "no scheduler named other" in line


def test_selector_and_failure_conditions_of_workloads() -> None:
    expressions = [{"key": "a", "operator": "In", "values": ["x", "y"]}, {"key": "b", "operator": "DoesNotExist"}]
    workload = {"spec": {"selector": {"matchLabels": {"app": "web"}, "matchExpressions": expressions}}}
    assert selector_text(workload) == "app=web,a in (x,y),!b"
    assert selector_text({"spec": {"selector": {"app": "web"}}}) == "app=web"
    condition = {"type": "ReplicaFailure", "status": "True", "message": "quota"}
    assert problem_conditions({"status": {"conditions": [condition, {"type": "Available", "status": "True"}]}}) == [
        "ReplicaFailure=True: quota"
    ]
