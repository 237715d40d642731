"""The pod network: the CPU time of connecting a pod, and the time until a hundred pods at once are connected."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterable, Iterator
from functools import partial
from pathlib import Path

from benchmarks import Row
from benchmarks.processes import own_cpu_s
from sampan.host.clock import RealClock
from sampan.network.pods import BridgeConfig, BridgeNetwork, unsupported_reason
from sampan.runtimes.config import PortMapping
from tests.network.pods.lab import Lab

PODS = 100
CIDRS = ["10.77.0.0/24", "fd77::/64"]


def rows() -> Iterator[Row]:
    if unsupported_reason():
        return
    yield Row("import of pyroute2", _import_ms(), "ms", note="when the first pod comes")
    for what, has_port in (("pod", False), ("pod with a host port", True)):
        with tempfile.TemporaryDirectory() as directory:
            lab = Lab(Path(directory))
            try:
                attached, detached = lab.run(partial(_attach_and_detach, lab, has_port))
            finally:
                lab.close()
        note = f"{PODS} at once, two addresses each, with nft"
        yield Row(f"CPU to connect a {what}", attached[0] / PODS, "ms", goal=6, note=note)
        yield Row(f"CPU to disconnect a {what}", detached[0] / PODS, "ms", goal=1.5, note=note)
        yield Row(f"{PODS} connected, each a {what}", attached[1], "ms")


async def _attach_and_detach(lab: Lab, has_port: bool) -> tuple[tuple[float, float], tuple[float, float]]:
    pods = [lab.add_namespace(f"pod{number}") for number in range(PODS)]
    network = BridgeNetwork(
        directory=lab.node.parent / "records", config=BridgeConfig(bridge="bench0"), clock=RealClock()
    )
    async with network:
        network.use_pod_cidrs(CIDRS)
        await network.attach("first", lab.add_namespace("first"), [])
        attached = await _timed(
            network.attach(f"pod{n}", pod, [PortMapping(container_port=80, host_port=8000 + n)] if has_port else [])
            for n, pod in enumerate(pods)
        )
        detached = await _timed(network.detach(f"pod{n}") for n in range(PODS))
        await network.remove_all()
    return attached, detached


async def _timed(calls: Iterable[Awaitable[object]]) -> tuple[float, float]:
    """Return the milliseconds of CPU time and of elapsed time."""
    cpu, began = own_cpu_s(with_children=True), time.perf_counter()
    await asyncio.gather(*calls)
    return (own_cpu_s(with_children=True) - cpu) * 1000, (time.perf_counter() - began) * 1000


def _import_ms() -> float:
    code = "import time; t = time.process_time(); import pyroute2; print((time.process_time() - t) * 1000)"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
