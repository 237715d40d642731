"""`sampan up --nodes` and `sampan node` as processes."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.cli.command import Sampan
from tests.eventually import wait_until
from tests.ports import free_port


def start_cluster(sampan: Sampan, *words: str) -> None:
    port = str(free_port())
    sampan("up", "--detach", "--secure-port", port, "--bind-address", "127.0.0.1", "--runtime", "hollow", *words)


def get_nodes(sampan: Sampan) -> dict[str, Any]:
    nodes = json.loads(sampan("kubectl", "get", "nodes", "-o", "json"))
    return {item["metadata"]["name"]: item for item in nodes["items"]}


def lease_renew_time(sampan: Sampan, name: str) -> str:
    lease = sampan("kubectl", "get", "leases", name, "-n", "kube-node-lease", "-o", "json")
    renew_time: str = json.loads(lease)["spec"]["renewTime"]
    return renew_time


def test_hollow_nodes_are_added_listed_and_removed(sampan: Sampan) -> None:
    start_cluster(sampan, "--nodes", "2")
    assert list(get_nodes(sampan)) == ["node-0", "node-1"]
    assert sampan("node", "add").startswith("node node-2 is ready (")
    words = ("--label", "zone=a", "--taint", "gpu=yes:NoSchedule", "--cpu", "4", "--memory", "8Gi", "--pods", "20")
    lines = sampan("node", "add", "big", "bigger", *words).splitlines()
    assert [line.rpartition(" (")[0] for line in lines] == ["node big is ready", "node bigger is ready"]
    assert all(float(line.rpartition("(")[2].split()[0]) < 2 for line in lines)
    big = get_nodes(sampan)["big"]
    assert big["metadata"]["labels"]["zone"] == "a"
    assert {"key": "gpu", "value": "yes", "effect": "NoSchedule"} in big["spec"]["taints"]
    assert big["status"]["allocatable"] | {"cpu": "4", "memory": "8Gi", "pods": "20"} == big["status"]["allocatable"]
    assert sampan("node", "remove", "bigger") == "node bigger removed\n"
    assert "bigger" not in get_nodes(sampan)
    listed = sampan("node", "ls").splitlines()
    assert listed[0].split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert "CONTAINER-RUNTIME" in sampan("node", "list", "-o", "wide").splitlines()[0]
    refused = sampan.expect_failure("node", "add", "--memory", "8 GB")
    assert refused == "Error: --memory: '8 GB' is not a quantity; examples: 4, 500m, 8Gi\n"
    assert "not found" in sampan.expect_failure("node", "remove", "bigger")
    sampan("kubectl", "create", "-f", write_manifest(sampan, "left"))
    assert "is not run by this cluster's process" in sampan.expect_failure("node", "stop", "left")


def test_one_hollow_node_is_the_default_and_stopped_nodes_are_marked(sampan: Sampan) -> None:
    start_cluster(sampan)
    assert list(get_nodes(sampan)) == ["node-0"]
    sampan("node", "add")
    assert "runtime       2 hollow" in sampan("status").splitlines()
    sampan("node", "stop", "node-1")
    rows = [line.split()[:2] for line in sampan("node", "ls").splitlines()[1:]]
    assert rows == [["node-0", "Ready"], ["node-1", "Stopped"]]
    assert "nodes         1 of 2 ready: node-0, node-1 (Stopped)" in sampan("status").splitlines()


def write_manifest(sampan: Sampan, name: str) -> str:
    path = sampan.home / "node.json"
    path.write_text(json.dumps({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}}))
    return str(path)


def test_stopped_nodes_stay_stopped_over_a_restart(sampan: Sampan) -> None:
    start_cluster(sampan, "--nodes", "2")
    assert sampan("node", "stop", "node-1") == "node node-1 stopped\n"
    before = lease_renew_time(sampan, "node-1")
    sampan("down")
    start_cluster(sampan, "--nodes", "1")
    assert list(get_nodes(sampan)) == ["node-0", "node-1"]
    assert lease_renew_time(sampan, "node-1") == before
    assert sampan("node", "start", "node-1") == "node node-1 is ready\n"
    assert lease_renew_time(sampan, "node-1") > before


def test_invalid_node_flags_are_reported(sampan: Sampan, tmp_path: Path) -> None:
    assert "is not running" in sampan.expect_failure("node", "add")
    if not Path("/run/crio/crio.sock").exists() and not Path("/run/containerd/containerd.sock").exists():
        error = sampan.expect_failure("up", "--runtime", "cri")
        assert "--runtime: cri: no socket of containerd or CRI-O" in error
    error = sampan.expect_failure("up", "--nodes", "2000", "--runtime", "process")
    assert error == "Error: --nodes: one machine runs at most 100 real nodes; --runtime hollow simulates thousands\n"
    assert "--nodes: cannot be negative" in sampan.expect_failure("up", "--nodes", "-1")
    error = sampan.expect_failure("up", "--nodes", "1", "--runtime", "hollow", "--components", "apiserver")
    assert "--nodes: needs kubelet in --components" in error
    stages = tmp_path / "stages.yaml"
    stages.write_text("stages: [{run: soon}]")
    error = sampan.expect_failure("up", "--hollow-stages", str(stages))
    assert "--hollow-stages: stage 1: want a time as in 5, 1m30s, 5s..10s or forever, not 'soon'" in error
    assert "--hollow-stages: /nowhere: cannot be read" in sampan.expect_failure("up", "--hollow-stages", "/nowhere")


def create_running_pod(sampan: Sampan, name: str, node: str) -> dict[str, Any]:
    """Create a pod on the node, wait until it runs, and return the status of its container."""
    container = {"name": "c", "image": "sampan.local/host", "command": ["sleep", "1000"]}
    spec = {"nodeName": node, "hostNetwork": True, "containers": [container], "terminationGracePeriodSeconds": 0}
    path = sampan.home / f"{name}.json"
    path.write_text(json.dumps({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec}))
    sampan("kubectl", "create", "-f", str(path))
    return wait_for_running_container(sampan, name, 0)


def wait_for_running_container(sampan: Sampan, name: str, restarts: int) -> dict[str, Any]:
    def find_running_container() -> dict[str, Any]:
        pod: dict[str, Any] = json.loads(sampan("kubectl", "get", "pod", name, "-o", "json"))
        statuses: list[dict[str, Any]] = pod["status"].get("containerStatuses", [])
        running = [status for status in statuses if "running" in status["state"] and status["restartCount"] == restarts]
        return running[0] if running else {}

    return wait_until(find_running_container)


def container_pids(sampan: Sampan) -> list[str]:
    """Return the ids of the container processes of this cluster, whose environment names the cluster's directory."""
    pids = subprocess.run(["pgrep", "-f", "^sleep 1000$"], capture_output=True, text=True).stdout.split()
    return [pid for pid in pids if str(sampan.home) in _environment(pid)]


def _environment(pid: str) -> str:
    try:
        return Path("/proc", pid, "environ").read_text()
    except OSError:
        return ""


def test_real_nodes_are_added_stopped_started_and_removed(sampan: Sampan) -> None:
    port = str(free_port())
    sampan("up", "--detach", "--secure-port", port, "--bind-address", "127.0.0.1", "--runtime", "process")
    assert list(get_nodes(sampan)) == ["node-0"]
    assert "--cpu: cannot be set for a real node, which has the capacity of the machine" in sampan.expect_failure(
        "node", "add", "--cpu", "4"
    )
    assert sampan("node", "add", "--label", "zone=a").startswith("node node-1 is ready (")
    added = get_nodes(sampan)["node-1"]
    assert added["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("process://")
    assert added["metadata"]["labels"]["zone"] == "a"
    first = create_running_pod(sampan, "web", "node-1")
    assert len(container_pids(sampan)) == 1
    assert sampan("node", "stop", "node-1") == "node node-1 stopped\n"
    wait_until(lambda: not container_pids(sampan))
    before = lease_renew_time(sampan, "node-1")
    assert sampan("node", "start", "node-1") == "node node-1 is ready\n"
    again = wait_for_running_container(sampan, "web", 1)
    assert again["containerID"] != first["containerID"]
    assert lease_renew_time(sampan, "node-1") > before
    assert sampan("node", "remove", "node-1") == "node node-1 removed\n"
    assert list(get_nodes(sampan)) == ["node-0"]
    assert sampan("node", "add", "paper", "--runtime", "hollow").startswith("node paper is ready (")
