"""Hollow nodes: what a fleet with its pods costs in one `sampan up`, heartbeats included.

`python -m benchmarks.hollow_bench NODES PODS` measures a fleet of another size: 5000 50000 is the goal of the design.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from benchmarks import Row
from tests.cli.command import Sampan, wait_until_ready
from tests.ports import free_port

NODES, PODS = 200, 2000
WATCHED_S = 15
WRITERS = 16
_TICKS = os.sysconf("SC_CLK_TCK")


def rows(nodes: int = NODES, pods: int = PODS) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as home:
        sampan, port = Sampan(Path(home)), free_port()
        flags = ("--secure-port", str(free_port()), "--insecure-port", str(port), "--nodes", str(nodes))
        with sampan.running("up", "--runtime", "hollow", *flags, *_events(nodes)) as process:
            url = f"http://127.0.0.1:{port}"
            wait_until_ready(url)
            yield from asyncio.run(_measured(url, process.pid, nodes, pods))


def _events(nodes: int) -> tuple[str, ...]:
    return ("--no-hollow-events",) if nodes > 1000 else ()


async def _measured(url: str, pid: int, nodes: int, pods: int) -> list[Row]:
    note, found = f"{nodes} nodes, {pods} pods", []
    connections = aiohttp.TCPConnector(limit=WRITERS + 2)
    async with aiohttp.ClientSession(url, connector=connections) as session:
        began = time.monotonic()
        await _until(session, "/api/v1/nodes", nodes)
        found.append(Row("hollow nodes ready", nodes / (time.monotonic() - began), "nodes/s", note=note))
        began, cpu = time.monotonic(), _cpu_s(pid)
        await _create(session, nodes, pods)
        await _until(session, "/api/v1/pods?fieldSelector=status.phase=Running", pods)
        found.append(Row("pods created and running", pods / (time.monotonic() - began), "pods/s"))
        found.append(Row("all of it, CPU for each pod", (_cpu_s(pid) - cpu) / pods * 1000, "ms", note=note))
        await asyncio.sleep(15)
        cpu, began = _cpu_s(pid), time.monotonic()
        latency = await _latency(session, pods)
        idle = (_cpu_s(pid) - cpu) / (time.monotonic() - began) * 100
        found.append(Row("get of a pod, 99th of 100", latency, "ms", goal=200, note=note))
        found.append(Row("at rest, heartbeats included", idle, "% of a core", note=note))
        found.append(Row("resident", _resident_mb(pid), "MB", goal=2500, note=note))
    return found


async def _create(session: aiohttp.ClientSession, nodes: int, pods: int) -> None:
    numbers = iter(range(pods))

    async def writer() -> None:
        for number in numbers:
            async with session.post("/api/v1/namespaces/default/pods", json=_pod(number, nodes)) as answer:
                if answer.status != 201:
                    raise RuntimeError(await answer.text())

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(writer())


def _pod(number: int, nodes: int) -> dict[str, object]:
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    return {
        "metadata": {"name": f"pod-{number}", "labels": {"app": f"app-{number % 100}"}},
        "spec": {"nodeName": f"node-{number % nodes}", "containers": [container]},
    }


async def _until(session: aiohttp.ClientSession, path: str, count: int) -> None:
    """Until there are so many, as the number of those that are left after the first tells."""
    joined = path + ("&" if "?" in path else "?") + "limit=1"
    while True:
        async with session.get(joined) as answer:
            listed = await answer.json()
        left = listed["metadata"].get("remainingItemCount")
        seen = len(listed["items"]) + (left or 0)
        if left is None and listed["metadata"].get("continue"):
            seen = await _count(session, path)
        if seen >= count:
            return
        await asyncio.sleep(0.5)


async def _count(session: aiohttp.ClientSession, path: str) -> int:
    accept = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    async with session.get(path, headers=accept) as answer:
        return (await answer.read()).count(b'"uid":')


async def _latency(session: aiohttp.ClientSession, pods: int) -> float:
    took = []
    deadline = time.monotonic() + WATCHED_S
    number = 0
    while time.monotonic() < deadline:
        number = (number + 7919) % pods
        began = time.monotonic()
        async with session.get(f"/api/v1/namespaces/default/pods/pod-{number}") as answer:
            await answer.read()
        took.append(time.monotonic() - began)
        await asyncio.sleep(0.01)
    return sorted(took)[len(took) * 99 // 100] * 1000


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    for row in rows(*map(int, sys.argv[1:3])):
        print(f"{row.name}: {row.value:.1f} {row.unit} {row.note or ''}", flush=True)
