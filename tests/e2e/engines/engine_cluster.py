"""A cluster whose pods run on containerd or Docker, managed by `sampan up`, kubectl and `sampan down`."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sampan.network.pods import bridge_for
from sampan.network.pods.nft import run_nft
from tests.cli.command import Sampan
from tests.e2e.kubectl.command import Kubectl, find_kubectl
from tests.ports import free_port
from tests.runtimes import engines
from tests.runtimes.engines import Engine
from tests.runtimes.images.builders import docker_archive

LOADED, HOST = "sampan.local/loaded:1", "sampan.local/host"
_LIST = {
    "cri": ["ctr", "--address", "{socket}", "--namespace", "k8s.io", "containers", "ls", "-q"],
    "docker": ["docker", "--host", "unix://{socket}", "ps", "-aq"],
}
_PROGRAMS = {"cri": ("containerd", "runc", "ctr", "iptables", "nft"), "docker": ("dockerd", "docker", "runc", "nft")}


@dataclass(frozen=True, kw_only=True)
class EngineCluster:
    runtime: str
    engine: Engine
    sampan: Sampan
    kubectl: Kubectl
    host_port: int

    def start(self) -> None:
        words = ["up", "--detach", "--secure-port", str(free_port()), "--runtime", self.runtime]
        self.sampan(*words, "--container-runtime-endpoint", f"unix://{self.engine.socket}")

    def kill(self) -> None:
        pid = self.sampan.read_running_file()["pid"]
        os.kill(pid, signal.SIGKILL)

    def containers(self) -> Collection[str]:
        argv = [word.format(socket=self.engine.socket) for word in _LIST[self.runtime]]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout.split()

    def leftovers(self) -> list[str]:
        """Return the links, nftables, files, mounts and containers of the cluster that are still on the machine."""
        bridge = bridge_for(str(self.sampan.directory() / "nodes" / "node-0"))
        links = [name for name in os.listdir("/sys/class/net") if name.startswith(bridge)]
        tables = [line for line in run_nft("list", "tables").decode().splitlines() if bridge in line]
        files = [str(path) for path in (self.engine.directory / "cni").glob("*")] if self.runtime == "cri" else []
        mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if str(self.sampan.home) in line]
        return [*links, *tables, *files, *mounts, *self.containers()]


def missing_requirement(runtime: str) -> str:
    return engines.missing_requirement(*_PROGRAMS[runtime]) or ("" if find_kubectl() else "there is no kubectl here")


@contextmanager
def engine_cluster(runtime: str, home: Path, *, network: Path | None = None) -> Iterator[EngineCluster]:
    """Yield a cluster on a new engine. `network` is the network namespace of the caller, if it has its own: then Docker
    creates its own bridge and rules there."""
    if why := missing_requirement(runtime):
        pytest.skip(why)
    factories: dict[str, Callable[[], AbstractContextManager[Engine]]] = {
        "cri": lambda: engines.containerd(has_network=False),
        "docker": lambda: engines.docker(has_network=network is not None),
    }
    sampan = Sampan(home)
    sampan.network = network
    config = sampan.directory() / "admin.kubeconfig"
    with factories[runtime]() as engine:
        archive = docker_archive(home / "loaded.tar", engines.busybox_image("loaded"), LOADED)
        cluster = EngineCluster(
            runtime=runtime,
            engine=engine,
            sampan=sampan,
            kubectl=Kubectl(program=find_kubectl() or "", kubeconfig=config, home=home),
            host_port=free_port(),
        )
        sampan("image", "load", str(archive))
        try:
            yield cluster
        finally:
            sampan.run("down")


def pod(name: str, image: str, command: Sequence[str], **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": image, "command": list(command), **spec.pop("container", {})}
    whole = {"containers": [container], "terminationGracePeriodSeconds": 1, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": whole}


def fetch(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/", timeout=10) as response:
        return str(response.read().decode())


__all__ = ["HOST", "LOADED", "EngineCluster", "engine_cluster", "fetch", "missing_requirement", "pod"]
