"""A real node: what its pods cost until they run and when they are quiet, and what is left of them. Only as root, with
the runtime `oci`."""

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
from sampan.runtimes import kernel
from tests.cli.command import Sampan, wait_until_ready
from tests.ports import free_port

PODS, QUIET_S = 100, 30


def rows() -> Iterator[Row]:
    if os.geteuid() != 0:
        return
    before = _links()
    with tempfile.TemporaryDirectory() as home:
        sampan, port = Sampan(Path(home)), free_port()
        flags = ("--secure-port", str(free_port()), "--insecure-port", str(port), "--runtime", "oci")
        with sampan.running("up", *flags) as process:
            url = f"http://127.0.0.1:{port}"
            wait_until_ready(url)
            yield from asyncio.run(_measured(url, process.pid, Path(home)))
        left = len(_links() - before) + len(list(kernel.mounts_below(Path(home))))
        yield Row("links and mounts left behind", left, "count", goal=0)


async def _measured(url: str, pid: int, home: Path) -> list[Row]:
    note, found = f"{PODS} pods, oci", []
    async with aiohttp.ClientSession(url, timeout=aiohttp.ClientTimeout(total=None)) as session:
        began, own = time.monotonic(), cpu_s(pid)
        others = _others_s(pid, home)
        await create(session, (_pod(number) for number in range(PODS)))
        await until(session, "/api/v1/pods?fieldSelector=status.phase=Running", PODS)
        found.append(Row("pods run after", time.monotonic() - began, "s", goal=60, note=note))
        found.append(
            Row("CPU for each pod", (cpu_s(pid) - own) / PODS * 1000, "ms", goal=60, note="API server included")
        )
        found.append(Row("its programs' for each pod", (_others_s(pid, home) - others) / PODS * 1000, "ms"))
        await asyncio.sleep(QUIET_S / 2)
        own, began = cpu_s(pid), time.monotonic()
        await asyncio.sleep(QUIET_S)
        quiet = (cpu_s(pid) - own) / (time.monotonic() - began) * 100
        found.append(Row("quiet pods", quiet, "% of a core", goal=1, note=note))
        began = time.monotonic()
        await remove(session)
        found.append(Row("pods are gone after", time.monotonic() - began, "s", note=note))
    return found


def _pod(number: int) -> dict[str, object]:
    container = {"name": "main", "image": "sampan.local/host", "command": ["sleep", "100000"]}
    spec = {"nodeName": "node-0", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"name": f"pod-{number}"}, "spec": spec}


def _others_s(pid: int, home: Path) -> float:
    """Of programs that the process began, and of its monitor with those that it began."""
    own = cpu_s(pid, with_children=True) - cpu_s(pid)
    return own + sum(cpu_s(monitor, with_children=True) for monitor in _monitors(home))


def _monitors(home: Path) -> Iterator[int]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if b"sampan.runtimes.monitor" in words and any(word.startswith(str(home).encode()) for word in words):
            yield int(file.parent.name)


def _links() -> set[str]:
    return set(os.listdir("/sys/class/net"))
