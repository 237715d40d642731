"""Timelines of pods: names of steps, waits, and the critical path."""

from typing import Any

import pytest

from sampan.diagnosis.pod_cause import OwnerRecords
from sampan.diagnosis.pod_timeline import STEPS, timeline, timeline_value
from tests.diagnosis.recorded_pod import record, started_pod


def report(start: float, end: float, state: str, outcome: str = "200") -> dict[str, Any]:
    """A status update by a node without a flight recorder of its own: a hollow or a joined one."""
    subject, actor = "pods/default/web/status", "system:node:node-0"
    return record("apiserver", "patch", start, end, outcome, actor=actor, subject=subject, state=state)


def test_steps_are_numbered_and_kubelet_writes_are_shown_once() -> None:
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


def test_critical_path_starts_with_the_request_for_the_owner() -> None:
    subject = "deployments.apps/default/web"
    changes = [
        record("apiserver", "create", -0.5, -0.4, "201", actor="user", subject=subject, generation=1),
        record("apiserver", "update", 0.5, 0.6, "200", subject=f"{subject}/status", generation=1),
    ]
    line = timeline(started_pod(), [OwnerRecords(changes, [])])
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


def test_status_update_of_a_hollow_node_ends_the_timeline() -> None:
    records = [
        record("apiserver", "create", 0.0, 0.1, "201", actor="admin"),
        report(0.2, 0.3, "Pending, web: ErrImagePull"),
        report(1.2, 1.3, "Running"),
        report(2.2, 2.3, "Running, ready"),
    ]
    assert timeline(records[:2]).running is None
    line = timeline(records)
    assert line.running == pytest.approx(101.3)
    assert line.ready == pytest.approx(102.3)
    assert "wait for kubelet/node-0" in [f"{step.name} for {step.component}" for step in line.path]


@pytest.mark.parametrize("outcome", ["409 Conflict", "200 dry run"])
def test_status_update_without_effect_reports_nothing(outcome: str) -> None:
    records = [record("apiserver", "create", 0.0, 0.1, "201", actor="admin"), report(0.2, 0.3, "", outcome)]
    assert timeline(records).running is None


def test_pod_that_was_stored_by_server_side_apply_has_the_same_steps() -> None:
    records = [record("apiserver", "patch", 0.0, 0.1, "201", actor="admin"), report(0.2, 0.3, "Running")]
    assert timeline(records).steps[0].name == "store the pod"


def test_the_critical_path_to_a_hollow_node_leads_through_the_scheduler() -> None:
    """The API server records both the first and the last step, but the scheduler decides when the last one starts."""
    hollow = [
        record("apiserver", "create", 0.0, 0.1, "201", actor="admin"),
        record("kube-scheduler", "schedule", 0.5, 0.6, "node-0", parts="wait in the queue=-300000+300000"),
        record("kube-scheduler", "bind", 0.6, 0.7, "node-0"),
        report(0.8, 0.9, "Running"),
    ]
    path = timeline(hollow).path
    names = [step.name for step in path if not step.is_wait]
    assert names == ["store the pod", "wait in the queue", "choose a node", "bind to the node", "report status"]
    assert sum(path.values()) == pytest.approx(0.9)


def test_a_service_that_is_created_later_is_not_part_of_the_start() -> None:
    records = [
        *started_pod()[:-5],
        record("endpointslice-controller", "add to EndpointSlice", 200.0, 200.0, "web-1 of service late"),
    ]
    line = timeline(records)
    assert line.published is None
    assert line.started.steps[-1].name == "report status"


def test_json_value_has_times_and_steps() -> None:
    value = timeline_value(timeline(started_pod()))
    assert (value["runningAfterSeconds"], value["readyAfterSeconds"]) == (1.0, 3.0)
    first = value["steps"][0]
    assert (first["name"], first["number"], first["isOnCriticalPath"]) == ("store the pod", 1, True)


def test_parts_of_a_step_have_times_and_do_not_change_the_critical_path() -> None:
    line = timeline(started_pod())
    assert sum(line.path.values()) == pytest.approx(1.0)
    first = timeline_value(line)["steps"][0]
    assert [part["name"] for part in first["parts"]] == [
        "ServiceAccount",
        "webhook policy.example.com",
        "write to the store",
    ]
    assert first["parts"][1]["durationSeconds"] == pytest.approx(0.03)
