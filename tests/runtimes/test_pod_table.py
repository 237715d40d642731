"""The table of the pods of an engine, as they were last observed."""

import pytest

from sampan.api.types.core_v1 import Container, Pod, PodSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.runtimes import contract
from sampan.runtimes.contract import EMPTY_REPORT, RuntimeFailure
from sampan.runtimes.pod_table import ObservedContainer, ObservedSandbox, PodTable

POD = Pod(metadata=ObjectMeta(uid="u"), spec=PodSpec(initContainers=[Container(name="init", image="i")]))
SANDBOX = ObservedSandbox(id="s", attempt=0, is_ready=True, ips=["10.0.0.2"])


def _observed_container(name: str, attempt: int = 0, sandbox: str = "s", **fields: object) -> ObservedContainer:
    values = {"state": contract.EXITED, **fields}
    return ObservedContainer(id=f"{name}{attempt}", sandbox=sandbox, name=name, attempt=attempt, **values)  # type: ignore[arg-type]


def test_only_changes_are_reported() -> None:
    table = PodTable("x")
    assert table.put("u", [SANDBOX], [], table.ticket())
    assert not table.put("u", [SANDBOX], [], table.ticket())
    assert table.put("u", [SANDBOX], [_observed_container("a")], table.ticket())
    assert table.put("u", [], [], table.ticket())
    assert not table.put("u", [], [], table.ticket())
    assert table.uids() == []


def test_observation_with_an_older_ticket_is_ignored() -> None:
    table = PodTable("x")
    old, new = table.ticket(), table.ticket()
    assert table.put("u", [SANDBOX], [_observed_container("a")], new)
    assert not table.put("u", [SANDBOX], [], old)
    assert table.report(POD).container("a") is not None
    late = table.ticket()
    assert table.put("u", [], [], table.ticket())
    assert not table.put("u", [SANDBOX], [], late), "a removed pod must not reappear"
    assert table.report(POD) == EMPTY_REPORT


def test_report_has_the_current_and_the_previous_container() -> None:
    table = PodTable("x")
    runs = [_observed_container("a", number, exit_code=number, finished_at=2, started_at=3) for number in (1, 0, 2)]
    table.put("u", [SANDBOX], runs, table.ticket())
    report = table.report(POD)
    assert [(report.id, report.exit_code) for report in (*report.containers, *report.before)] == [
        ("x://a2", 2),
        ("x://a1", 1),
    ]
    assert report.containers[0].started_at == 2
    assert (report.is_sandbox_ready, report.sandboxes, report.ips) == (True, 1, ["10.0.0.2"])


def test_only_succeeded_containers_of_an_older_sandbox_stay_current() -> None:
    table = PodTable("x")
    new = ObservedSandbox(id="t", attempt=1, is_ready=False)
    containers = [
        _observed_container("good"),
        _observed_container("bad", exit_code=1),
        _observed_container("init"),
        _observed_container("own", sandbox="t", exit_code=1),
    ]
    table.put("u", [SANDBOX, new], containers, table.ticket())
    report = table.report(POD)
    assert (report.is_sandbox_ready, report.sandboxes, list(report.ips)) == (False, 2, [])
    assert sorted(container.name for container in report.containers) == ["good", "own"]
    assert sorted(report.name for report in report.before) == ["bad", "init"]


def test_stopped_container_or_sandbox_raises_runtime_failure() -> None:
    table = PodTable("x")
    table.put("u", [ObservedSandbox(id="s", attempt=0, is_ready=False)], [_observed_container("a")], table.ticket())
    with pytest.raises(RuntimeFailure, match='container "a" is not running'):
        table.find_running_container("u", "a")
    with pytest.raises(RuntimeFailure, match="no sandbox"):
        table.ready_sandbox("u")
    assert table.log_file("u", "a", previous=False) is None
