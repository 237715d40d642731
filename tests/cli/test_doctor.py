"""`sampan doctor`, and its findings about clusters."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sampan.cli import doctor
from sampan.cli.doctor import check_cluster, finding_text, print_results
from sampan.cli.local_cluster import rootless
from sampan.cli.status.cluster_report import ClusterReport
from sampan.cluster.machine.machine_checks import CheckLevel, CheckResult, check_machine
from sampan.cluster.machine.machine_state import MachineState
from tests.cli.command import Sampan

HEALTHY = ClusterReport(
    "lab",
    "running",
    "/srv/sampan/lab",
    url="https://127.0.0.1:6443",
    pid=7,
    health="ok",
    nodes={"node-0": "Ready"},
    store="sqlite",
    store_bytes=5000,
    free_bytes=50 << 30,
    certificate_expires_s=300 * 86400.0,
)


def test_healthy_cluster_passes_all_checks(capsys: pytest.CaptureFixture[str]) -> None:
    results = check_cluster(HEALTHY)
    assert {result.level for result in results} == {CheckLevel.OK}
    print_results(results, title="CLUSTER lab")
    assert capsys.readouterr().out.startswith("CLUSTER lab       RESULT    DETAIL\nprocess           ok ")


@pytest.mark.parametrize(
    ("name", "level", "changes"),
    [
        ("process", CheckLevel.WARNING, {"state": "killed"}),
        ("process", CheckLevel.WARNING, {"state": "unreadable"}),
        ("data format", CheckLevel.ERROR, {"data_problem": "it was written by Sampan 9"}),
        ("api server", CheckLevel.ERROR, {"health": "etcd failed"}),
        ("nodes", CheckLevel.WARNING, {"nodes": {"a": "NotReady", "b": "Ready"}}),
        ("certificates", CheckLevel.WARNING, {"certificate_expires_s": 86400.0}),
        ("certificates", CheckLevel.ERROR, {"certificate_expires_s": -86400.0}),
        ("store", CheckLevel.WARNING, {"store": "etcd https://a:2379,https://b:2379"}),
        ("store", CheckLevel.WARNING, {"store_bytes": 7 << 30}),
        ("disk", CheckLevel.WARNING, {"free_bytes": 1000}),
    ],
)
def test_each_finding_has_a_cost_and_a_remedy(name: str, level: CheckLevel, changes: dict[str, Any]) -> None:
    findings = [result for result in check_cluster(replace(HEALTHY, **changes)) if result.level is not CheckLevel.OK]
    assert [(finding.name, finding.level) for finding in findings] == [(name, level)]
    text = finding_text(findings[0])
    assert "\n  cost    " in text
    assert "\n  remedy  " in text
    assert max(map(len, text.splitlines())) <= 80


def test_table_and_json_output_agree(sampan: Sampan) -> None:
    table, done = sampan.run("doctor"), sampan.run("doctor", "-o", "json")
    summary = json.loads(done.stdout)
    assert done.returncode == table.returncode == (0 if summary["ok"] else 1)
    assert table.stdout.startswith("CHECK")
    for check in summary["checks"]:
        assert any(line.startswith(check["name"]) for line in table.stdout.splitlines())


def test_ports_are_those_of_the_machine_for_a_user_who_is_not_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other checks run in the namespaces of the user, where all ports are free."""
    is_inside = False

    def run_inside(check: Callable[[], None], *, has_outgoing: bool) -> int:
        nonlocal is_inside
        is_inside = True
        check()
        return 0

    async def read_state(directory: Path) -> MachineState:
        return MachineState()

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))  # the clusters of the user who runs the tests do not matter
    monkeypatch.setattr(rootless, "is_possible", lambda: True)
    monkeypatch.setattr(rootless, "shortcomings", lambda: [])
    monkeypatch.setattr(rootless, "run_inside", run_inside)
    monkeypatch.setattr(doctor, "read_state", read_state)
    monkeypatch.setattr(doctor, "find_busy_ports", lambda: [] if is_inside else [6443])
    output = CliRunner().invoke(doctor.command, []).output
    assert re.search(r"ports +ok +6443 in use", output), output


def test_full_disk_is_reported_with_the_eviction_threshold() -> None:
    def check_disk(free_bytes: int) -> CheckResult:
        results = check_machine(MachineState(disk_bytes=252 << 30, disk_free_bytes=free_bytes))
        return next(result for result in results if result.name == "disk")

    assert check_disk(3 << 30).level is CheckLevel.OK
    assert check_disk(1 << 30).level is CheckLevel.WARNING
    assert "below 200Mi (nodefs.available, imagefs.available) pods are evicted" in check_disk(1 << 30).cost
