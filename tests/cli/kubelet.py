"""Helpers that run `sampan kubelet`, and wait for the mirror pods that it creates."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sampan.api.types.core_v1 import Pod
from sampan.host.clock import RealClock
from sampan.machinery.client import Client, Selection
from sampan.machinery.client.http import HttpTransport
from sampan.machinery.client.kubeconfig import load
from sampan.runtimes.monitor.client import MonitorClient
from tests.cli.command import Sampan
from tests.eventually import eventually

CLASSIC_NODE = "classic"
LOW_THRESHOLDS = (
    "--eviction-hard",
    "memory.available<1Mi,nodefs.available<1Mi,imagefs.available<1Mi",
    "--image-gc-high-threshold",
    "100",
)
"""Flags for a kubelet on a machine whose memory and disks may be rather full."""


@contextmanager
def running_kubelet(sampan: Sampan, root: Path, *words: str) -> Iterator[None]:
    """Run `sampan kubelet` with the process runtime, which needs neither root nor a container engine.

    A kubelet leaves its monitor to the next kubelet; no kubelet follows in a test, so the monitor is stopped.
    """
    common = (
        "--root-dir",
        str(root),
        "--runtime",
        "process",
        "--node-ip",
        "127.0.0.1",
        "--cgroups-per-qos=false",
        *LOW_THRESHOLDS,
    )
    try:
        with sampan.running_command("kubelet", *common, *LOW_THRESHOLDS, *words):
            yield
    finally:
        asyncio.run(MonitorClient(root / "runtime" / "process" / "monitor").quit(kill=True))


def run_as_admin(admin: Path, work: Callable[[Client], Awaitable[None]]) -> None:
    """Run the work with a client that has all rights."""

    async def main() -> None:
        async with HttpTransport(load(admin)) as transport:
            await work(Client(transport=transport, clock=RealClock(), component="test"))

    asyncio.run(main())


async def wait_for_mirror_pods(client: Client, *names: str) -> None:
    """Wait until the API server has just these mirror pods, and they run."""
    phases = dict.fromkeys((f"{name}-{CLASSIC_NODE}" for name in names), "Running")

    async def are_running() -> bool:
        pods = (await client.for_kind(Pod).list(Selection(namespace="default"))).items
        return {pod.metadata.name: pod.status.phase for pod in pods} == phases

    await eventually(are_running, poll_s=0.05)
