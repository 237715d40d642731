"""The server and the credentials of a command of `sampan kubectl`."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from sampan.cli.local_cluster.cluster_dir import ClusterDir, RunningCluster
from sampan.cli.main import cli
from sampan.kubectl.client.session import Session
from sampan.kubectl.errors import KubectlError
from sampan.machinery.client.access import Access
from sampan.testing import Cluster


def test_server_flag_is_used_with_the_credentials_of_the_kubeconfig(sampan_cluster: Cluster, tmp_path: Path) -> None:
    config = yaml.safe_load(sampan_cluster.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    command = ["kubectl", "--kubeconfig", str(path), "--server", sampan_cluster.url, "get", "namespace", "default"]
    outcome = CliRunner().invoke(cli, command)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.output.splitlines()[1].startswith("default ")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of clusters of a user without a kubeconfig."""
    for name, entry in {"HOME": "", "SAMPAN_HOME": "clusters", "KUBECONFIG": "nope"}.items():
        monkeypatch.setenv(name, str(tmp_path / entry))
    return tmp_path / "clusters"


@pytest.fixture
def running_cluster(home: Path) -> Iterator[str]:
    """The name of a cluster that runs, as its lock says; its API server is not needed."""
    where = ClusterDir(home / "eco")
    (where.path / "pki").mkdir(parents=True)
    where.write_note(RunningCluster(pid=1, name="eco", url="https://127.0.0.1:2"))
    lock = where.lock()
    assert lock.acquire(makes_file=True)
    yield "eco"
    lock.release()


def write_stale_kubeconfig(path: Path, server: str) -> None:
    entries = {"clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": {}}]}
    contexts = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
    content = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": contexts, **entries}
    path.write_text(yaml.safe_dump(content))


def test_missing_kubeconfig_does_not_deny_running_clusters(home: Path, running_cluster: str) -> None:
    output = CliRunner().invoke(cli, ["kubectl", "get", "nodes"]).stderr
    hint = "There is no kubeconfig. Your running Sampan clusters: eco; --name NAME uses one of them."
    assert hint in output.splitlines()


def test_stale_kubeconfig_hints_at_running_clusters(home: Path, running_cluster: str, tmp_path: Path) -> None:
    path = tmp_path / "stale"
    hint = "The kubeconfig names no cluster that runs. Your running Sampan clusters: eco; --name NAME uses one of them."
    for server, has_hint in (("https://127.0.0.1:1", True), ("https://127.0.0.1:2", False)):
        write_stale_kubeconfig(path, server)
        output = CliRunner().invoke(cli, ["kubectl", "--kubeconfig", str(path), "get", "nodes"]).stderr
        assert (hint in output.splitlines()) == has_hint, output


def test_without_clusters_the_hint_is_to_start_one(home: Path) -> None:
    output = CliRunner().invoke(cli, ["kubectl", "get", "nodes"]).stderr
    assert "There is no kubeconfig, and none of your Sampan clusters is running: `sampan up` starts one." in output


def test_a_watch_ends_with_the_request_timeout(sampan_cluster: Cluster) -> None:
    command = ["kubectl", "--kubeconfig", str(sampan_cluster.kubeconfig), "get", "namespaces", "default", "--watch"]
    outcome = CliRunner().invoke(cli, [*command, "--request-timeout=500ms"])
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert outcome.stdout.splitlines()[1].startswith("default ")


class _EndlessEvents(BaseHTTPRequestHandler):
    """Answers a watch with events without a pause, and any other request with half of a body."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000" if "watch" not in self.path else str(1 << 40))
        self.end_headers()
        with suppress(OSError):
            while "watch" in self.path:
                self.wfile.write(b'{"type": "BOOKMARK", "object": {}}\n')
            self.wfile.write(b'{"half":')
            self.rfile.read(1)  # until the client closes the connection

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def endless_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _EndlessEvents) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_events_do_not_prolong_a_watch(endless_server: str) -> None:
    session = Session(Access(server=endless_server), "default", timeout_s=0.2)
    assert len(list(session.lines("/", {"watch": "true"}))) > 0


def test_half_a_response_is_an_error_after_the_request_timeout(endless_server: str) -> None:
    session = Session(Access(server=endless_server), "default", timeout_s=0.2)
    for read in (lambda: session.get("/"), lambda: list(session.pieces("/", {}))):
        with pytest.raises(KubectlError, match=r"context deadline exceeded \(Client\.Timeout"):
            read()
        session.close()
