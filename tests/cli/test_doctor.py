"""`sampan doctor`, and its findings about clusters."""

import json
from dataclasses import replace
from typing import Any

import pytest

from sampan.cli.doctor import check_cluster, finding_text, print_results
from sampan.cli.status.cluster_report import ClusterReport
from sampan.cluster.machine.machine_checks import CheckLevel
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
        ("process", CheckLevel.WARNING, {"state": "stopped", "was_killed": True}),
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
