"""Warnings and details of `sampan status`."""

import pytest

from sampan.cli.status import details, table_row
from sampan.cli.status.cluster_report import ClusterReport, size_text, warnings


def report(**fields: object) -> ClusterReport:
    cluster_report = ClusterReport("mine", "running", "/data/mine", url="https://127.0.0.1:6443", health="ok")
    for name, value in fields.items():
        setattr(cluster_report, name, value)
    return cluster_report


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        ({}, ""),
        ({"health": "etcd failed: reason withheld"}, "the API server is not healthy: etcd failed: reason withheld"),
        ({"nodes": {"a": "Ready", "b": "NotReady"}}, "not ready: b; `kubectl describe node b` shows why"),
        ({"nodes": {"a": "Ready,SchedulingDisabled"}}, ""),
        ({"free_bytes": 5 << 20}, "only 5.2 MB left on the disk of /data/mine"),
        ({"free_bytes": 5 << 30}, ""),
        ({"certificate_expires_s": 86400 * 3.5}, "a certificate expires in 3 days"),
        ({"certificate_expires_s": 86400 * 200.0}, ""),
        ({"store": "etcd https://a:2379,https://b:2379"}, "etcd has 2 members"),
        ({"store": "etcd https://a:2379,https://b:2379,https://c:2379"}, ""),
        ({"store": "sqlite"}, ""),
    ],
)
def test_warnings(fields: dict[str, object], warning: str) -> None:
    texts = warnings(report(**fields))
    assert [text.startswith(warning) for text in texts] == ([True] if warning else [])


def test_details_fit_eighty_columns() -> None:
    listening = [f"192.0.2.{number}:10250" for number in range(20)]
    nodes = {f"node-{number}": "Ready" for number in range(20)}
    full = report(listening=listening, nodes=nodes, pods={"Running": 3}, warnings=["too little of everything " * 9])
    lines = details(full)
    assert max(map(len, lines)) <= 80
    assert "nodes         20 of 20 ready: node-0, node-1, " in "\n".join(lines)
    assert "and 12 more" in "\n".join(lines)
    assert "pods          3 Running" in lines


def test_details_of_a_stopped_cluster_show_the_start_command() -> None:
    stopped = ClusterReport("mine", "stopped", "/data/mine")
    assert table_row(stopped) == ["mine", "stopped", "", "", "", ""]
    assert details(stopped)[-1] == "start         sampan up --name mine"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 KB"), (51 * 10**9, "51 GB"), (2 * 10**12, "2.0 TB")]
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text
