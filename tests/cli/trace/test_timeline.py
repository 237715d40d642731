"""Timelines of pods: names of steps, waits, and the critical path."""

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from sampan.cli.trace.timeline_svg import timeline_svg
from sampan.cli.trace.timeline_text import timeline_text
from sampan.diagnosis.pod_timeline import STEPS, Timeline, timeline, timeline_value

KUBELET = "kubelet/node-0"
PARTS = "ServiceAccount=1000+50;webhook policy.example.com=20000+30000;write to the store=60000+20000"


def record(component: str, action: str, start: float, end: float, outcome: str = "", **fields: Any) -> dict[str, Any]:
    fields.setdefault("subject", "pods/default/web")
    return {
        "component": component,
        "action": action,
        "time": 100 + end,
        "took": end - start,
        "outcome": outcome,
        **fields,
    }


def started_pod() -> list[dict[str, Any]]:
    """A pod that was Running after one second; the kubelet saw the binding before the scheduler had the response."""
    node = "system:node:node-0"
    return [
        record("apiserver", "create", 0.0, 0.1, "201", actor="admin", parts=PARTS),
        record("kube-scheduler", "schedule", 0.2, 0.25, "node-0", parts="wait in the queue=-120000+120000"),
        record("kube-scheduler", "bind", 0.25, 0.32, "node-0"),
        record(KUBELET, "see and admit", 0.3, 0.301),
        record(KUBELET, "create cgroups", 0.301, 0.31),
        record(KUBELET, "report status", 0.305, 0.4, "Pending"),
        record("apiserver", "patch", 0.31, 0.39, "200", actor=node, subject="pods/default/web/status"),
        record(KUBELET, "create data directories", 0.31, 0.32),
        record(KUBELET, "mount volumes", 0.32, 0.35),
        record(KUBELET, "run sandbox", 0.35, 0.6),
        record(KUBELET, "pull image", 0.6, 0.9, "web sha256:1"),
        record(KUBELET, "start container", 0.9, 0.95, "web oci://1"),
        record(KUBELET, "report status", 0.95, 1.0, "Running"),
        record(KUBELET, "readiness probe", 2.9, 2.94, "web passed"),
        record(KUBELET, "report status", 2.95, 3.0, "Running, ready"),
        record("endpointslice-controller", "add to EndpointSlice", 3.1, 3.1, "web-1 of service web"),
        record("dns", "add to DNS", 3.2, 3.2, "web.default.svc: cluster IP 10.96.0.7"),
        record("kube-proxy/node-0", "add to proxy rules", 3.3, 3.3, "service web"),
        record("kube-proxy/node-1", "add to proxy rules", 3.4, 3.4, "service web"),
        record(KUBELET, "pull image", 9.0, 9.1, "web sha256:1"),
    ]


def test_the_steps_have_their_numbers_and_writes_of_the_kubelet_are_shown_once() -> None:
    line = timeline(started_pod()).started
    names = [step.name for step in line.steps if not step.is_wait]
    numbered = [name for name in names if name in STEPS and name != "report status"]
    assert sorted(set(numbered), key=STEPS.index) == [name for name in STEPS if name != "report status"]
    assert names.count("report status") == 3
    assert [step.number for step in line.steps if step.number] == [
        *(1, 2, 3, 4, 5, 11, 6, 7, 8, 9, 10, 11, 11),
        *(12, 14, 13),
    ]
    assert [name for name in names if name not in STEPS] == ["wait in the queue", "readiness probe"]


def test_the_critical_path_adds_up_to_the_time_to_running() -> None:
    line = timeline(started_pod())
    assert (line.running, line.ready) == (101.0, 103.0)
    assert [step.name for step in line.path] == [
        "store the pod",
        "wait in the queue",
        *STEPS[1:11],
    ]
    assert sum(line.path.values()) == pytest.approx(1.0)
    assert sum(map(line.share, line.steps)) == pytest.approx(1.0)
    pending = next(step for step in line.steps if step.detail == "Pending")
    assert line.share(pending) == 0


def test_the_request_for_the_owner_comes_first() -> None:
    owners = [
        record("apiserver", "create", -0.5, -0.4, "201", actor="admin", subject="deployments.apps/default/web"),
        record("apiserver", "update", 0.5, 0.6, "200", subject="deployments.apps/default/web/status"),
    ]
    line = timeline(started_pod(), owners)
    assert [step.name for step in line.path][:3] == ["create deployments", "wait", "store the pod"]
    assert sum(line.path.values()) == pytest.approx(1.5)


def test_a_pod_that_waits_for_a_node_has_no_critical_path() -> None:
    records = [
        record("apiserver", "create", 0.0, 0.1, "201", actor="admin"),
        record("kube-scheduler", "schedule", 0.2, 0.2, "0/2 nodes are available: 2 Insufficient cpu."),
    ]
    line = timeline(records)
    assert (line.running, dict(line.path)) == (None, {})
    assert [step.name for step in line.steps] == ["store the pod", "schedule"]
    assert "not running yet" in timeline_text("pod default/web", line, is_wide=True)


def test_the_status_of_a_hollow_node_is_the_end() -> None:
    node = "system:node:node-0"
    records = [
        record("apiserver", "create", 0.0, 0.1, "201", actor="admin"),
        record("apiserver", "patch", 0.2, 0.3, "200", actor=node, subject="pods/default/web/status"),
    ]
    assert timeline(records).running == pytest.approx(100.3)


def test_the_critical_path_to_a_hollow_node_leads_through_the_scheduler() -> None:
    """The API server records both the first and the last step, but the scheduler decides when the last one starts."""
    hollow = [
        record("apiserver", "create", 0.0, 0.1, "201", actor="admin"),
        record("kube-scheduler", "schedule", 0.5, 0.6, "node-0", parts="wait in the queue=-300000+300000"),
        record("kube-scheduler", "bind", 0.6, 0.7, "node-0"),
        record("apiserver", "patch", 0.8, 0.9, "200", actor="system:node:node-0", subject="pods/default/web/status"),
    ]
    path = timeline(hollow).path
    names = [step.name for step in path if not step.is_wait]
    assert names == ["store the pod", "wait in the queue", "choose a node", "bind to the node", "report status"]
    assert sum(path.values()) == pytest.approx(0.9)


def test_text_fits_eighty_columns_and_leaves_out_what_came_later() -> None:
    text = timeline_text("pod default/web", timeline(started_pod()), is_wide=False)
    assert max(map(len, text.splitlines())) <= 80
    summary = "pod default/web: running after 1.00s, ready after 3.00s, reachable after 3.30s"
    assert text.splitlines()[0] == summary
    assert "critical path: pull image 30%, run sandbox 25%" in text
    assert text.endswith("later steps: 2 (-o wide shows them)")
    assert timeline_text("pod default/web", timeline(started_pod()), is_wide=True).count("sha256:1") == 2


def test_parts_of_a_step_are_shown_below_it() -> None:
    line = timeline(started_pod())
    short = timeline_text("pod default/web", line, is_wide=False).splitlines()
    assert [row.split("  ")[2].strip() for row in short[3:5]] == ["webhook policy.exam…", "write to the store"]
    assert "     ServiceAccount" in timeline_text("pod default/web", line, is_wide=True)
    assert sum(line.path.values()) == pytest.approx(1.0)
    first = timeline_value(line)["steps"][0]
    assert [part["name"] for part in first["parts"]] == [
        "ServiceAccount",
        "webhook policy.example.com",
        "write to the store",
    ]
    assert first["parts"][1]["durationSeconds"] == pytest.approx(0.03)


def test_a_service_that_is_created_later_is_not_part_of_the_start() -> None:
    records = [
        *started_pod()[:-5],
        record("endpointslice-controller", "add to EndpointSlice", 200.0, 200.0, "web-1 of service late"),
    ]
    line = timeline(records)
    assert line.published is None
    assert line.started.steps[-1].name == "report status"


def test_json_has_all_steps() -> None:
    value = timeline_value(timeline(started_pod()))
    assert (value["runningAfterSeconds"], value["readyAfterSeconds"]) == (1.0, 3.0)
    first = value["steps"][0]
    assert (first["name"], first["number"], first["isOnCriticalPath"]) == ("store the pod", 1, True)


def test_svg_escapes_what_users_name() -> None:
    records = [record("apiserver", "create", 0.0, 0.1, "201", actor="<script>&")]
    root = ET.fromstring(timeline_svg("pod <a>/&", timeline(records)))
    assert "script" not in {child.tag for child in root.iter()}
    assert timeline_svg("empty", Timeline(steps=[])).startswith("<svg")
