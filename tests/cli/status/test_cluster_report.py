"""Warnings and details of `sampan status`."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from sampan.cli.local_cluster.cluster_dir import ClusterDir, RunningCluster
from sampan.cli.status import details, table_row
from sampan.cli.status.cluster_report import (
    ClusterReport,
    _find_unreachable,
    _health,
    cluster_report,
    list_nodes,
    node_state,
    runtime_text,
    size_text,
    warnings,
)
from sampan.kubectl.client.session import Session
from sampan.kubectl.errors import ServerError
from sampan.machinery import errors
from sampan.machinery.pki.certificates import SigningRequest, issue, make_ca
from tests.ports import free_port


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
        (
            {"failed_components": {"kube-scheduler": "OSError: broken"}},
            "kube-scheduler has failed and is being restarted: OSError: broken",
        ),
        ({"nodes": {"a": "Ready", "b": "NotReady"}}, "not ready: b; `kubectl describe node b` shows why"),
        ({"nodes": {"a": "Ready,SchedulingDisabled", "b": "Stopped"}}, ""),
        (
            {"remaining_pods": {"node-0": "oci", "node-1": "cri"}},
            "the pods of node-0 (oci), node-1 (cri) may still run: `sampan up` takes them over, `sampan down` ",
        ),
        ({"free_bytes": 5 << 20}, "only 5.2 MB left on the disk of /data/mine"),
        ({"free_bytes": 5 << 30}, ""),
        ({"certificate_expires_s": 86400 * 3.5}, "a certificate expires in 3 days"),
        ({"certificate_expires_s": 86400 * 200.0}, ""),
        ({"store": "etcd https://a:2379,https://b:2379"}, "etcd has 2 members"),
        ({"store": "etcd https://a:2379,https://b:2379,https://c:2379"}, ""),
        (
            {
                "store": "etcd https://a:2379,https://b:2379,https://c:2379",
                "unreachable_etcd_members": ["https://b:2379"],
            },
            "1 of 3 members of etcd do not answer: https://b:2379",
        ),
        ({"store": "sqlite"}, ""),
    ],
)
def test_warnings(fields: dict[str, object], warning: str) -> None:
    texts = warnings(report(**fields))
    assert [text.startswith(warning) for text in texts] == ([True] if warning else [])


def test_members_of_etcd_that_accept_no_connection_are_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        member = f"http://127.0.0.1:{server.getsockname()[1]}"
        dead = f"https://127.0.0.1:{free_port()}"
        assert _find_unreachable([member, dead]) == [dead]
    assert _find_unreachable([]) == []


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


DAY_S = 86400


def write_cluster(path: Path) -> ClusterDir:
    (path / "pki").mkdir()
    (path / "lock").touch()
    return ClusterDir(path)


def write_certificate(path: Path, days: int) -> None:
    ca = make_ca("ca", now=time.time())
    request = SigningRequest(common_name="system:node:a", organizations=["system:nodes"], is_client=True)
    pair = issue(ca, request, now=time.time() - (365 - days) * DAY_S)
    path.write_bytes(pair.certificate + pair.key)


def test_joined_node_shows_the_certificates_of_its_kubelet(tmp_path: Path) -> None:
    """The CA of the cluster is valid for ten years, which says nothing about the node."""
    where = write_cluster(tmp_path)
    (where.pki / "ca.crt").write_bytes(make_ca("ca", now=time.time()).certificate)
    where.join_record.write_text('{"server": "https://192.0.2.1:6443", "node": "machine-b"}')
    for title, days in (("client", 364), ("server", 20)):
        write_certificate(where.pki / f"kubelet-{title}-current.pem", days)
    node = cluster_report(where, is_detailed=True)
    assert {title: round(end / DAY_S) for title, end in node.certificates.items()} == {"client": 364, "server": 20}
    assert round(node.certificate_expires_s / DAY_S) == 20
    assert any(line.startswith("certificates  client valid for 36") for line in details(node))
    assert any(text.startswith("a certificate expires in ") for text in node.warnings)


def test_killed_cluster_is_not_called_stopped(tmp_path: Path) -> None:
    where = write_cluster(tmp_path)
    assert cluster_report(where, is_detailed=True).state == "stopped"
    where.write_note(RunningCluster(pid=1 << 22, name="mine"))
    node = where.path / "nodes" / "node-0"
    node.mkdir(parents=True)
    (node / "runtime.json").write_text(json.dumps({"runtime": "process", "endpoint": ""}))
    killed = cluster_report(where, is_detailed=True)
    assert (killed.state, killed.name, killed.remaining_pods) == ("killed", "mine", {"node-0": "process"})
    assert "the pods of node-0 (process) may still run" in killed.warnings[0]


class _Session:
    """A session with an API server that lists 1,200 nodes in pages."""

    def get(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        first, limit = int(query.get("continue", "0")), int(query["limit"])
        last = min(first + limit, 1200)
        items = [{"metadata": {"name": f"node-{number}"}} for number in range(first, last)]
        return {"items": items, "metadata": {"continue": str(last)} if last < 1200 else {}}


def test_all_nodes_are_counted() -> None:
    session: Any = _Session()
    assert len({node["metadata"]["name"] for node in list_nodes(session)}) == 1200


def node(*, is_ready: bool = True, **annotations: str) -> dict[str, Any]:
    names = {f"sampan.dev/{key}": value for key, value in annotations.items()}
    conditions = [{"type": "Ready", "status": str(is_ready)}]
    return {"metadata": {"name": "n", "annotations": names}, "status": {"conditions": conditions}}


def test_stopped_node_is_marked_although_the_api_calls_it_ready() -> None:
    assert [node_state(node()), node_state(node(is_ready=False))] == ["Ready", "NotReady"]
    assert node_state(node(power="off")) == "Stopped"
    assert node_state({**node(power="off"), "spec": {"unschedulable": True}}) == "Stopped,SchedulingDisabled"


def test_runtimes_are_counted_as_they_are_now() -> None:
    nodes = [node(runtime="hollow"), node(runtime="oci"), node(runtime="hollow"), node()]
    assert runtime_text(nodes, "oci: /usr/sbin/runc") == "2 hollow, 1 joined, 1 oci; oci: /usr/sbin/runc"
    assert runtime_text([], "there is no node: no runc") == "there is no node: no runc"


class HealthSession:
    """The only method of a session that reads the health."""

    def __init__(self, text: str, code: int = 200) -> None:
        self._text, self._code = text, code

    def read(self, path_and_query: str) -> bytes:
        assert path_and_query == "/readyz?verbose"
        if self._code != 200:
            raise ServerError(errors.generic(self._code, self._text, is_unexpected=True))
        return self._text.encode()


@pytest.mark.parametrize(
    ("text", "code", "health", "components"),
    [
        pytest.param("[+]ping ok\n[+]component/a ok\nreadyz check passed\n", 200, "ok", {}, id="healthy"),
        pytest.param(
            "[+]ping ok\n[-]component/a failed: E: x failed: y\nreadyz check passed\n",
            200,
            "ok",
            {"a": "E: x failed: y"},
            id="failed-component",
        ),
        pytest.param(
            "[-]etcd failed: reason withheld\n[-]component/a failed: E\nreadyz check failed\n",
            500,
            "etcd failed: reason withheld",
            {"a": "E"},
            id="failed-server-and-component",
        ),
        pytest.param("", 500, "not ready", {}, id="no-text"),
    ],
)
def test_health_and_failed_components(text: str, code: int, health: str, components: dict[str, str]) -> None:
    assert _health(cast(Session, HealthSession(text, code))) == (health, components)
