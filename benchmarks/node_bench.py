"""A real node with the runtime `oci`, as root: the cost of pods until they run and while they are idle, and what they
leave behind."""

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from benchmarks import Row
from benchmarks.pods import create, remove, until
from benchmarks.processes import cpu_s
from benchmarks.running_cluster import running_cluster
from sampan.runtimes import kernel

PODS, QUIET_S = 100, 30


def rows() -> Iterator[Row]:
    if os.geteuid() != 0:
        return
    before = _links()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        with running_cluster("--runtime", "oci", home=home) as cluster:
            yield from asyncio.run(_measured(cluster.url, cluster.pid, home))
        left = len(_links() - before) + len(list(kernel.mounts_below(home)))
        yield Row("links and mounts left behind", left, "count", goal=0)


async def _measured(url: str, pid: int, home: Path) -> list[Row]:
    note, rows = f"{PODS} pods, oci", list[Row]()
    async with aiohttp.ClientSession(url, timeout=aiohttp.ClientTimeout(total=None)) as session:
        began, own = time.monotonic(), cpu_s(pid)
        programs = _programs_s(pid, home)
        await create(session, (_pod(number) for number in range(PODS)))
        await until(session, "/api/v1/pods?fieldSelector=status.phase=Running", PODS)
        rows.append(Row("pods run after", time.monotonic() - began, "s", goal=60, note=note))
        rows.append(
            Row("CPU for each pod", (cpu_s(pid) - own) / PODS * 1000, "ms", goal=60, note="API server included")
        )
        rows.append(Row("its programs' for each pod", (_programs_s(pid, home) - programs) / PODS * 1000, "ms"))
        await asyncio.sleep(QUIET_S / 2)
        own, began = cpu_s(pid), time.monotonic()
        await asyncio.sleep(QUIET_S)
        quiet = (cpu_s(pid) - own) / (time.monotonic() - began) * 100
        rows.append(Row("quiet pods", quiet, "% of a core", goal=1, note=note))
        began = time.monotonic()
        await remove(session)
        rows.append(Row("pods are gone after", time.monotonic() - began, "s", note=note))
    return rows


def _pod(number: int) -> dict[str, object]:
    container = {"name": "main", "image": "sampan.local/host", "command": ["sleep", "100000"]}
    spec = {"nodeName": "node-0", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"name": f"pod-{number}"}, "spec": spec}


def _programs_s(pid: int, home: Path) -> float:
    """Return the CPU time of the programs that the process and its monitor started, and of the monitor."""
    own = cpu_s(pid, with_children=True) - cpu_s(pid)
    return own + sum(cpu_s(monitor, with_children=True) for monitor in _monitors(home))


def _monitors(home: Path) -> Iterator[int]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:
            continue  # The process has ended.
        if b"sampan.runtimes.monitor" in words and any(word.startswith(str(home).encode()) for word in words):
            yield int(file.parent.name)


def _links() -> set[str]:
    return set(os.listdir("/sys/class/net"))
