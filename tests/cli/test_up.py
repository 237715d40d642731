"""`sampan up`, `status` and `down` as processes."""

import json
import os
import re
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from sampan.cli.local_cluster import remembered_flags
from sampan.cli.main import cli
from sampan.cluster.assembly import Assembly
from sampan.host.activity import Activity
from tests.cli.command import Sampan, get, unwrap_lines, wait_until_ready
from tests.eventually import eventually
from tests.ports import free_port

API_SERVER = ("--components", "apiserver")
"""Flags for tests that need the API server only: such a cluster starts in a third of the time."""
READY = re.compile(r"sampan is ready at (https://127\.0\.0\.1:\d+) \(\d+\.\d\d s, pid (\d+)\)")


def start_cluster(sampan: Sampan, *words: str) -> str:
    """Start a cluster in the background and return its URL."""
    port = free_port()
    output = sampan("up", "--detach", "--secure-port", str(port), "--bind-address", "127.0.0.1", *words)
    assert f"ready at https://127.0.0.1:{port}" in output
    return f"https://127.0.0.1:{port}"


def test_cluster_starts_reports_status_and_stops(sampan: Sampan) -> None:
    assert sampan("status") == "no clusters; `sampan up` starts one\n"
    lines = unwrap_lines(sampan("up", "-d", "--secure-port", str(free_port())))
    ready = READY.fullmatch(lines[0])
    assert ready
    url, pid = ready.groups()
    assert lines[1].startswith(f"  listen 127.0.0.1:{url.rpartition(':')[2]}, ")
    assert re.match(r"  nodes  (oci|cri|docker): |  nodes  there is no node: ", lines[2])
    has_nodes = "there is no node" not in lines[2]
    assert not has_nodes or re.match(r"  dns    10\.96\.0\.10 for cluster\.local, forwards to ", lines[3])
    assert lines[3 + has_nodes :] == [
        f"  use    export KUBECONFIG={sampan.directory()}/admin.kubeconfig",
        "  try    kubectl get namespaces        (or: sampan kubectl get namespaces)",
        f"  log    {sampan.directory()}/sampan.log",
        "  stop   sampan down",
    ]
    assert get(f"{url}/readyz") == (200, "ok")
    head, row, _, *details = sampan("status").splitlines()
    assert head.split() == ["NAME", "STATUS", "URL", "UP", "VERSION", "PID"]
    cells = row.split()
    assert (cells[:3], cells[-1]) == (["sampan", "running", url], pid)
    shown = {line.split()[0]: line.split(maxsplit=1)[1] for line in details if not line.startswith(" ")}
    assert shown["health"] == "ok"
    assert shown["components"].startswith("apiserver, controllers, scheduler")
    assert shown["store"].startswith("sqlite, ")
    assert shown["kubeconfig"] == f"{sampan.directory()}/admin.kubeconfig"
    assert shown["certificates"] == "valid for 364 days"
    (value,) = json.loads(sampan("status", "-o", "json"))
    assert (value["state"], value["url"], value["dataDir"]) == ("running", url, str(sampan.directory()))
    assert "default" in sampan("kubectl", "get", "namespaces")
    assert sampan("down") == "sampan: stopped\n"
    assert sampan("status").splitlines()[1].split() == ["sampan", "stopped"]
    with pytest.raises(OSError, match="refused"):
        get(f"{url}/readyz")
    assert sampan("down") == "sampan: was not running\n"


def test_up_runs_in_the_foreground_until_sigint(sampan: Sampan) -> None:
    with sampan.running_forked_server("up", "--secure-port", str(free_port())) as process:
        ready = next(filter(None, map(READY.match, process.stdout)))  # warnings of a slow start may come before
        assert get(f"{ready[1]}/livez") == (200, "ok")
        assert int(ready[2]) == process.pid
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert not (sampan.directory() / "running.json").exists()


def test_cluster_is_ready_within_5_seconds_of_cpu_time(sampan: Sampan) -> None:
    """CPU time does not depend on other tests; benchmarks/start_bench.py measures the goal of one second."""
    port = free_port()
    with sampan.running_command("up", "--secure-port", str(port)) as process:
        wait_until_ready(f"https://127.0.0.1:{port}")
        assert _cpu_time_s(process.pid) < 5


def _cpu_time_s(pid: int) -> float:
    """Return the user and system CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_sigterm_before_the_cluster_is_ready_exits_with_an_error(sampan: Sampan) -> None:
    """The cluster waits for an etcd that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with sampan.running_forked_server("up", "--etcd-servers", url, "--secure-port", str(free_port())) as process:
            connection, _ = silent.accept()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 1
            connection.close()
            assert process.stdout.read() == "Error: received a signal to stop before the cluster was ready\n"


class TestData:
    def test_objects_survive_a_restart(self, sampan: Sampan) -> None:
        url = start_cluster(sampan, "--nodes", "0")
        sampan("kubectl", "create", "-f", str(_write_config_map(sampan.home)))
        authority = (sampan.directory() / "pki/ca.crt").read_bytes()
        sampan("down")
        port = url.rpartition(":")[2]
        sampan("up", "-d", "--secure-port", port, "--bind-address", "127.0.0.1")
        assert "red" in sampan("kubectl", "get", "configmap", "settings", "-o", "yaml")
        assert (sampan.directory() / "pki/ca.crt").read_bytes() == authority

    def test_objects_survive_sigkill(self, sampan: Sampan) -> None:
        start_cluster(sampan, "--nodes", "0")
        sampan("kubectl", "create", "-f", str(_write_config_map(sampan.home)))
        _kill(sampan.read_running_file()["pid"])
        assert sampan("status").splitlines()[1].split() == ["sampan", "killed"]
        start_cluster(sampan)
        assert "red" in sampan("kubectl", "get", "configmap", "settings", "-o", "yaml")

    def test_objects_in_memory_are_lost_on_restart(self, sampan: Sampan) -> None:
        start_cluster(sampan, *API_SERVER, "--store", "memory")
        sampan("kubectl", "create", "-f", str(_write_config_map(sampan.home)))
        sampan("down")
        start_cluster(sampan, *API_SERVER, "--store", "memory")
        assert "not found" in sampan.expect_failure("kubectl", "get", "configmap", "settings")

    def test_down_delete_removes_the_data_directory(self, sampan: Sampan) -> None:
        start_cluster(sampan, *API_SERVER)
        assert sampan("down", "--delete") == "sampan: stopped, data removed\n"
        assert not sampan.directory().exists()

    def test_down_delete_keeps_a_directory_that_is_not_a_cluster(self, sampan: Sampan, tmp_path: Path) -> None:
        foreign = tmp_path / "foreign"
        foreign.mkdir()
        (foreign / "file").write_text("x")
        assert "nor a cluster's directory" in sampan.expect_failure("down", "--data-dir", str(foreign), "--delete")
        assert [path.name for path in foreign.iterdir()] == ["file"]

    def test_data_directory_and_kubeconfig_are_private(self, sampan: Sampan) -> None:
        directory = sampan.directory()
        os.umask(before := os.umask(0))  # look at the umask without changing it
        out = sampan.home / "out.kubeconfig"
        start_cluster(sampan, "--kubeconfig-out", str(out))
        nodes = directory / "nodes"  # volumes below it are mounted into pods and must be readable by their users
        own = [path for path in directory.rglob("*") if path != nodes and nodes not in path.parents]
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [directory, out, *own]}
        assert before != 0o077, "the umask would hide wrong modes"
        assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


def _write_config_map(directory: Path) -> Path:
    path = directory / "settings.yaml"
    path.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {color: red}\n")
    return path


def _kill(pid: int) -> None:
    """Kill a process that is not a child of this one, and wait until it has exited."""
    descriptor = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGKILL)
        assert select.select([descriptor], [], [], 60)[0], "the process has not exited"
    finally:
        os.close(descriptor)


class TestSecondStart:
    def test_second_start_on_the_same_data_directory_is_refused(self, sampan: Sampan) -> None:
        url = start_cluster(sampan, *API_SERVER)
        pid = sampan.read_running_file()["pid"]
        for words in (("up",), ("up", "--detach")):
            error = sampan.expect_failure(*words, "--secure-port", str(free_port()))
            assert error == (
                f"Error: --data-dir: {sampan.directory()} is in use by process {pid} at {url}; `sampan down` stops it, "
                "--name starts another cluster\n"
            )
        assert get(f"{url}/readyz") == (200, "ok")

    def test_second_cluster_runs_under_another_name(self, sampan: Sampan) -> None:
        first, other = start_cluster(sampan, *API_SERVER), start_cluster(sampan, *API_SERVER, "--name", "other")
        assert get(f"{first}/readyz") == get(f"{other}/readyz") == (200, "ok")
        rows = [row.split()[:3] for row in sampan("status").splitlines()[1:3]]
        assert rows == [["other", "running", other], ["sampan", "running", first]]
        assert sampan("down", "--name", "other") == "other: stopped\n"
        assert sampan("status", "--name", "sampan").splitlines()[1].split()[1] == "running"


def test_data_dir_flag_selects_the_data_directory(sampan: Sampan, tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    start_cluster(sampan, *API_SERVER, "--data-dir", str(directory))
    assert sampan("status", "--data-dir", str(directory)).splitlines()[1].split()[1] == "running"
    assert sampan("down", "--data-dir", str(directory)) == "sampan: stopped\n"


@pytest.mark.parametrize("detach_flag", [(), ("--detach",)], ids=["foreground", "detached"])
def test_a_busy_port_is_reported(sampan: Sampan, detach_flag: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1]
        error = sampan.expect_failure("up", "--secure-port", str(port), "--bind-address", "127.0.0.1", *detach_flag)
    assert error == f"Error: --secure-port: 127.0.0.1:{port} is in use; give another port\n"


def test_flags_are_passed_to_the_detached_process(sampan: Sampan) -> None:
    """Short flags that are written together are passed as well."""
    port = str(free_port())
    sampan("up", "-dv", "2", "--nodes", "0", "--secure-port", port, "--controllers", "-namespace-controller,*")
    log = (sampan.directory() / "sampan.log").read_text()
    assert "controllers: " in log
    assert "namespace-controller" not in log


def test_detached_process_inherits_no_descriptor_of_the_caller(sampan: Sampan) -> None:
    """A program that reads from the other end of an inherited pipe would wait for ever."""
    read_end, write_end = os.pipe()
    words = ("up", "--detach", *API_SERVER, "--secure-port", str(free_port()))
    command = [sys.executable, "-m", "sampan", *words]
    subprocess.run(command, env=sampan.environment, pass_fds=[write_end], check=True, capture_output=True)
    os.close(write_end)
    assert os.read(read_end, 1) == b""
    os.close(read_end)
    assert os.getsid(sampan.read_running_file()["pid"]) == sampan.read_running_file()["pid"]


@dataclass(frozen=True)
class ApiServer:
    sampan: Sampan
    output: str
    url: str
    insecure_url: str
    kubeconfig_copy: Path

    @property
    def directory(self) -> Path:
        return self.sampan.directory("mine")


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A cluster with an API server only, for tests of flags that do not affect each other."""
    sampan = Sampan(tmp_path_factory.mktemp("api-server"))
    port, insecure_port, copy, tokens = free_port(), free_port(), sampan.home / "config", sampan.home / "tokens.csv"
    tokens.write_text('secret,ann,1,"system:masters,others"\nplain,bob,2\n')
    output = sampan(
        *("up", "-d", "--name", "mine", *API_SERVER, "--secure-port", str(port), "--insecure-port", str(insecure_port)),
        *("--kubeconfig-out", str(copy), "--token-auth-file", str(tokens)),
    )
    try:
        yield ApiServer(sampan, output, f"https://127.0.0.1:{port}", f"http://127.0.0.1:{insecure_port}", copy)
    finally:
        sampan("down", "--name", "mine")


class TestKubeconfig:
    def test_kubeconfig_embeds_its_credentials(self, api_server: ApiServer) -> None:
        config = yaml.safe_load((api_server.directory / "admin.kubeconfig").read_text())
        assert config["current-context"] == "mine"
        assert config["clusters"][0]["cluster"]["server"] == api_server.url
        assert set(config["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}

    def test_kubeconfig_out_writes_a_copy(self, api_server: ApiServer) -> None:
        copy = api_server.kubeconfig_copy
        assert copy.read_bytes() == (api_server.directory / "admin.kubeconfig").read_bytes()
        assert "default" in api_server.sampan("kubectl", "--kubeconfig", str(copy), "get", "namespaces")

    def test_merge_kubeconfig_adds_contexts_and_down_removes_them(self, sampan: Sampan) -> None:
        own = sampan.home / ".kube/config"
        own.parent.mkdir()
        own.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "work", "cluster": {"server": "https://example.com"}}],
                    "users": [{"name": "me", "user": {"token": "x"}}],
                    "contexts": [{"name": "work", "context": {"cluster": "work", "user": "me"}}],
                    "current-context": "work",
                }
            )
        )
        start_cluster(sampan, *API_SERVER, "--merge-kubeconfig")
        start_cluster(sampan, *API_SERVER, "--name", "second", "--merge-kubeconfig")
        merged = yaml.safe_load(own.read_text())
        assert [entry["name"] for entry in merged["contexts"]] == ["work", "sampan", "second"]
        assert merged["current-context"] == "second"
        assert merged["users"][0] == {"name": "me", "user": {"token": "x"}}
        assert "default" in sampan("kubectl", "--context", "sampan", "get", "namespaces")
        sampan("down", "--name", "second")
        left = yaml.safe_load(own.read_text())
        assert [entry["name"] for entry in left["contexts"]] == ["work", "sampan"]
        assert [entry["name"] for entry in left["users"]] == ["me", "sampan-admin"]
        assert left["current-context"] == ""

    def test_merge_kubeconfig_uses_the_first_file_of_kubeconfig_variable(self, sampan: Sampan) -> None:
        own = sampan.home / "own.kubeconfig"
        sampan.environment["KUBECONFIG"] = f"{own}:{sampan.home / 'other'}"
        start_cluster(sampan, *API_SERVER, "--merge-kubeconfig")
        assert yaml.safe_load(own.read_text())["current-context"] == "sampan"
        assert not (sampan.home / ".kube").exists()
        assert "default" in sampan("kubectl", "get", "namespaces")
        pid = json.loads((sampan.directory() / "running.json").read_text())["pid"]
        os.kill(pid, signal.SIGKILL)
        sampan("down")
        assert yaml.safe_load(own.read_text())["contexts"] == []


def test_second_cluster_gets_a_free_port_and_keeps_the_port(sampan: Sampan) -> None:
    """On an address of the test's own, all ports are free. The second cluster keeps its port although that of the
    first is free again."""
    address = f"127.{100 + os.getpid() // 65536 % 100}.{os.getpid() // 256 % 256}.{os.getpid() % 256}"
    words = ("up", "-d", *API_SERVER, "--bind-address", address)
    assert f"ready at https://{address}:6443 " in sampan(*words)
    assert f"ready at https://{address}:6444 " in sampan(*words, "--name", "second")
    sampan("down")
    sampan("down", "--name", "second")
    assert f"ready at https://{address}:6444 " in sampan("up", "-d", "--name", "second")


def test_a_cluster_remembers_its_flags(sampan: Sampan) -> None:
    start_cluster(sampan, "--nodes", "3", "--runtime", "hollow", "--components", "apiserver,kubelet")
    sampan("down")
    output = sampan("up", "-d")
    assert "  nodes  3 hollow\n" in output
    flags = " --components apiserver,kubelet --nodes 3 --runtime hollow --secure-port "
    assert flags in " ".join(output.split())
    sampan("down")
    output = sampan("up", "-d", "--nodes", "1")
    assert " --components apiserver,kubelet --runtime hollow --secure-port " in " ".join(output.split())
    sampan("down")
    output = sampan("up", "-d", "--forget-flags", *API_SERVER, "--store", "memory")
    assert "  flags  " not in output
    sampan("down")
    (sampan.directory() / "flags.json").write_text("junk")
    assert "flags.json" in sampan.expect_failure("up", "-d")


def test_token_auth_file_authenticates_users(api_server: ApiServer) -> None:
    secrets = f"{api_server.url}/api/v1/secrets"
    assert get(secrets, token="secret")[0] == 200
    assert get(secrets, token="plain")[0] == 403
    assert get(secrets, token="wrong")[0] == 401
    assert get(secrets)[0] == 403


class TestPlainHttp:
    def test_insecure_port_serves_the_api_without_authentication(self, api_server: ApiServer) -> None:
        assert f"  also   {api_server.insecure_url}, without authentication" in api_server.output.splitlines()
        kinds = {"/api": "APIVersions", "/api/v1/pods": "PodList", "/api/v1/services": "ServiceList"}
        kinds["/api/v1/replicationcontrollers"] = "ReplicationControllerList"
        for path, kind in kinds.items():
            code, text = get(api_server.insecure_url + path)
            assert code == 200
            assert f'"kind":"{kind}"' in text
        assert "without authentication" in (api_server.directory / "sampan.log").read_text()

    def test_curl_reads_the_api_over_plain_http(self, api_server: ApiServer) -> None:
        command = ["curl", "-s", f"{api_server.insecure_url}/api"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        except FileNotFoundError:
            pytest.skip("there is no curl here")
        assert '"versions": [' in done.stdout


def test_hollow_nodes_of_an_earlier_run_take_no_real_pods(sampan: Sampan) -> None:
    assert "  nodes  2 hollow\n" in start(sampan, "--runtime", "hollow", "--nodes", "2")
    assert _list_taints(sampan, "node-1") == []
    sampan("down")
    output = start(sampan, "--runtime", "process", "--nodes", "1")
    text = "; 1 hollow, 1 process; hollow nodes are tainted hollow.sampan.dev/hollow:NoSchedule; "
    assert text in " ".join(output.split())
    assert "`sampan node remove node-1` removes it " in " ".join(output.split())
    assert "hollow.sampan.dev/hollow" in _list_taints(sampan, "node-1")
    assert "hollow.sampan.dev/hollow" not in _list_taints(sampan, "node-0")
    sampan("node", "add", "another", "--runtime", "hollow")
    assert "hollow.sampan.dev/hollow" in _list_taints(sampan, "another")
    sampan("down")
    start(sampan, "--runtime", "hollow")  # does not wait for node-0, a real node of the run before
    assert "nodes are ready so far" not in (sampan.directory() / "sampan.log").read_text()
    assert "hollow.sampan.dev/hollow" not in _list_taints(sampan, "node-1")
    sampan("down")


def start(sampan: Sampan, *words: str) -> str:
    return sampan("up", "-d", "--secure-port", str(free_port()), "--bind-address", "127.0.0.1", *words)


def _list_taints(sampan: Sampan, node: str) -> list[str]:
    manifest = yaml.safe_load(sampan("kubectl", "get", "node", node, "-o", "yaml"))
    return [taint["key"] for taint in manifest["spec"].get("taints", [])]


def test_start_and_stop_log_no_warnings(sampan: Sampan) -> None:
    """A client polls /readyz from the first moment on."""
    port = free_port()
    words = ("up", "--runtime", "hollow", "--nodes", "2", "--secure-port", str(port), "--bind-address", "127.0.0.1")
    for _ in ("a new cluster", "an existing cluster"):
        with sampan.running_forked_server(*words) as process:
            wait_until_ready(f"https://127.0.0.1:{port}")
            process.send_signal(signal.SIGTERM)
            output = process.communicate(60)
        assert not re.search("WARNING|ERROR|CRITICAL|Traceback", output), output


@pytest.mark.parametrize("is_ready", [False, True], ids=["before-ready", "after-ready"])
def test_a_component_that_fails_ends_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_ready: bool
) -> None:
    """The command runs in this process, so that the test can make a component fail."""

    async def fail(self: Assembly, activity: Activity) -> None:
        if is_ready:
            await eventually((tmp_path / "clusters/sampan/running.json").exists)
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(Assembly, "_schedule", fail)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name, path in {"HOME": tmp_path, "SAMPAN_HOME": tmp_path / "clusters"}.items():
        monkeypatch.setenv(name, str(path))
    words = ("up", "--nodes", "0", "--components", "apiserver,scheduler", "--secure-port", str(free_port()))
    done = CliRunner().invoke(cli, [*words, "--store", "memory"])
    message = "unexpected ZeroDivisionError: division by zero in component kube-scheduler; this is a bug in Sampan: "
    assert (done.exit_code, message in done.stderr) == (1, True), done.output
    assert "component kube-scheduler failed, the cluster stops: ZeroDivisionError: division by zero" in caplog.text
    assert not (tmp_path / "clusters/sampan/running.json").exists()


def test_another_port_is_chosen_if_the_chosen_one_was_taken_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command runs in this process, so that the test can choose the port and end the cluster."""

    async def fail(self: Assembly, activity: Activity) -> None:
        await eventually((tmp_path / "clusters/sampan/running.json").exists)
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(Assembly, "_schedule", fail)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name, path in {"HOME": tmp_path, "SAMPAN_HOME": tmp_path / "clusters"}.items():
        monkeypatch.setenv(name, str(path))
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports = [other.getsockname()[1], free_port()]
        chosen = iter((ports[0], ports[0], ports[1]))
        monkeypatch.setattr(remembered_flags, "free_port", lambda *_: next(chosen))
        words = ("up", "--nodes", "0", "--components", "apiserver,scheduler", "--store", "memory")
        done = CliRunner().invoke(cli, words)
    assert f"sampan is ready at https://127.0.0.1:{ports[1]} " in done.stdout, done.output


def test_ci_profile_sets_defaults_that_flags_override(sampan: Sampan) -> None:
    words = ("up", "--profile", "ci", "--secure-port", str(free_port()), "--runtime", "hollow")
    line = sampan(*words)
    assert re.fullmatch(rf"{READY.pattern}: export KUBECONFIG={sampan.directory()}/admin.kubeconfig\n", line)
    assert sampan.read_running_file()["store"] == "memory"
    sampan("down")
    sampan(*words, "--store", "sqlite")  # a flag overrides the profile
    assert sampan.read_running_file()["store"] == "sqlite"
