"""`sampan kubelet` as a process of its own, with real containers."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sampan.host.clock import RealClock
from sampan.kubelet.cgroups import CgroupHierarchy
from sampan.network.pods import BridgeConfig, BridgeNetwork, bridge_for
from sampan.runtimes import kernel
from sampan.runtimes.monitor.client import MonitorClient
from sampan.testing import Cluster
from tests.cli.kubelet import LOW_THRESHOLDS
from tests.reservations import reserved_subnet
from tests.skips import requires

CGROUP = f"/sampan-test-{os.getpid()}"
NODE = "victim"
needs_oci_runtime = requires("root", "crun or runc")


class KubeletProcess:
    """`pod_cidr` is a range that no other test uses: all nodes have their bridges in one network namespace."""

    def __init__(self, root: Path, kubeconfig: Path, pod_cidr: str, *more: str) -> None:
        self.root, self._kubeconfig, self._pod_cidr, self._more = root, kubeconfig, pod_cidr, more
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["kubelet", "--kubeconfig", str(self._kubeconfig), "--root-dir", str(self.root)]
        words += ["--hostname-override", NODE, "--cgroup-root", CGROUP, "--pod-cidr", self._pod_cidr, "--port", "0"]
        words += LOW_THRESHOLDS
        words += self._more
        with (self.root.parent / "log").open("ab") as log:
            self._process = subprocess.Popen([sys.executable, "-m", "sampan", *words], stdout=log, stderr=log)

    def kill(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None


@contextmanager
def kubelet_process(cluster: Cluster, directory: Path, *more: str) -> Iterator[KubeletProcess]:
    with reserved_subnet("10.78") as pod_cidr:
        process = KubeletProcess(directory / "kubelet", cluster.kubeconfig, pod_cidr, *more)
        try:
            yield process
        finally:
            process.kill(signal.SIGKILL)
            if (process.root / "runtime").exists():
                asyncio.run(_remove_monitor_and_bridge(process.root / "runtime"))
            for path in kernel.mounts_below(directory):
                kernel.unmount(path)
            CgroupHierarchy().remove(CGROUP)


async def _remove_monitor_and_bridge(directory: Path) -> None:
    """Remove the monitor and the bridge, which a node keeps for the next start of its kubelet."""
    await MonitorClient(directory / "oci" / "monitor").quit(kill=True)
    settings = BridgeConfig(bridge=bridge_for(str(directory)))
    async with BridgeNetwork(directory=directory / "network", config=settings, clock=RealClock()) as network:
        await network.remove_all()
