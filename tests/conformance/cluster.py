"""The cluster that the suite runs against: `sampan up`, as a user starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sampan.api.kubernetes_version import MINOR_VERSION
from tests.eventually import wait_until
from tests.ports import free_port
from tests.runtimes import engines
from tests.storage import etcd_server

RUNTIMES = ("oci", "cri", "docker")
STORES = ("sqlite", "etcd")
_START_S = 120.0


class ClusterError(Exception):
    """The cluster does not start; the message is for the person who runs the suite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    runtime: str = "oci"
    store: str = "sqlite"
    kubernetes: str = MINOR_VERSION

    @property
    def nodes(self) -> int:
        """Two, but containerd has one network for all its pods and so serves one node."""
        return 1 if self.runtime == "cri" else 2


@contextmanager
def running_cluster(options: ClusterOptions, directory: Path) -> Iterator[Path]:
    """Runs a cluster whose log is `directory`/sampan.log; the value is the administrator's kubeconfig."""
    with ExitStack() as stack:
        command = _command(options, directory, stack)
        log = stack.enter_context((directory / "sampan.log").open("wb"))
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        stack.callback(_stop, process)
        kubeconfig = directory / "admin.kubeconfig"
        _wait_until_ready(process, kubeconfig, options.nodes, directory / "sampan.log")
        yield kubeconfig


def _command(options: ClusterOptions, directory: Path, stack: ExitStack) -> list[str]:
    command = [sys.executable, "-m", "sampan", "up", "--data-dir", str(directory / "cluster")]
    command += ["--secure-port", str(free_port()), "--kubeconfig-out", str(directory / "admin.kubeconfig")]
    command += ["--runtime", options.runtime, "--nodes", str(options.nodes)]
    if options.kubernetes != MINOR_VERSION:
        command += ["--kubernetes-version", options.kubernetes]
    if options.store == "etcd":
        member = stack.enter_context(etcd_server.running_member(directory / "etcd"))
        command += ["--etcd-servers", member.client_url]
    if options.runtime != "oci":
        if why := engines.missing_requirement("containerd" if options.runtime == "cri" else "dockerd"):
            raise ClusterError(why)
        engine = engines.containerd(has_network=False) if options.runtime == "cri" else engines.docker()
        command += ["--container-runtime-endpoint", f"unix://{stack.enter_context(engine).socket}"]
    return command


def _wait_until_ready(process: subprocess.Popen[bytes], kubeconfig: Path, nodes: int, log: Path) -> None:
    def is_ready() -> bool:
        if process.poll() is not None:
            raise ClusterError(f"the cluster does not start:\n{log.read_text()[-3000:]}")
        return kubeconfig.exists() and _ready_nodes(kubeconfig) >= nodes

    try:
        wait_until(is_ready, timeout_s=_START_S, poll_s=0.5)
    except TimeoutError:
        raise ClusterError(f"the cluster does not become ready:\n{log.read_text()[-3000:]}") from None


def _ready_nodes(kubeconfig: Path) -> int:
    command = [sys.executable, "-m", "sampan", "kubectl", "--kubeconfig", str(kubeconfig), "get", "nodes", "-o", "json"]
    outcome = subprocess.run(command, capture_output=True, text=True)
    if outcome.returncode:
        return 0
    nodes = json.loads(outcome.stdout)["items"]
    conditions = [condition for node in nodes for condition in node["status"].get("conditions", ())]
    return sum(1 for condition in conditions if condition["type"] == "Ready" and condition["status"] == "True")


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.kill(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
