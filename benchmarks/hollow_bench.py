"""Hollow nodes: what a fleet with its pods costs in one `sampan up`, heartbeats included.

`python -m benchmarks.hollow_bench NODES PODS` measures a fleet of another size: 5000 50000 is the goal of the design.
"""

import asyncio
import sys
import time
from collections.abc import Iterator

import aiohttp

from benchmarks import Row
from benchmarks.pods import WRITERS, create, until
from benchmarks.processes import cpu_s, resident_mb
from benchmarks.running_cluster import running_cluster
from benchmarks.sample_pods import hollow_pod

NODES, PODS = 200, 2000
WATCHED_S = 15


def rows(nodes: int = NODES, pods: int = PODS) -> Iterator[Row]:
    with running_cluster("--runtime", "hollow", "--nodes", str(nodes), *_events(nodes)) as cluster:
        yield from asyncio.run(_measured(cluster.url, cluster.pid, nodes, pods))


def _events(nodes: int) -> tuple[str, ...]:
    return ("--no-hollow-events",) if nodes > 1000 else ()


async def _measured(url: str, pid: int, nodes: int, pods: int) -> list[Row]:
    note, rows = f"{nodes} nodes, {pods} pods", list[Row]()
    connections = aiohttp.TCPConnector(limit=WRITERS + 2)
    async with aiohttp.ClientSession(url, connector=connections) as session:
        began = time.monotonic()
        await until(session, "/api/v1/nodes", nodes)
        rows.append(Row("hollow nodes ready", nodes / (time.monotonic() - began), "nodes/s", note=note))
        began, cpu = time.monotonic(), cpu_s(pid)
        await create(session, (hollow_pod(number, nodes) for number in range(pods)))
        await until(session, "/api/v1/pods?fieldSelector=status.phase=Running", pods)
        rows.append(Row("pods created and running", pods / (time.monotonic() - began), "pods/s"))
        rows.append(Row("all of it, CPU for each pod", (cpu_s(pid) - cpu) / pods * 1000, "ms", note=note))
        await asyncio.sleep(15)
        cpu, began = cpu_s(pid), time.monotonic()
        latency = await _latency(session, pods)
        idle = (cpu_s(pid) - cpu) / (time.monotonic() - began) * 100
        rows.append(Row("get of a pod, 99th of 100", latency, "ms", goal=200, note=note))
        rows.append(Row("at rest, heartbeats included", idle, "% of a core", note=note))
        rows.append(Row("resident", resident_mb(pid), "MB", goal=2500, note=note))
    return rows


async def _latency(session: aiohttp.ClientSession, pods: int) -> float:
    latencies = []
    deadline = time.monotonic() + WATCHED_S
    number = 0
    while time.monotonic() < deadline:
        number = (number + 7919) % pods
        began = time.monotonic()
        async with session.get(f"/api/v1/namespaces/default/pods/pod-{number}") as response:
            await response.read()
        latencies.append(time.monotonic() - began)
        await asyncio.sleep(0.01)
    return sorted(latencies)[len(latencies) * 99 // 100] * 1000


if __name__ == "__main__":
    for row in rows(*map(int, sys.argv[1:3])):
        print(f"{row.name}: {row.value:.1f} {row.unit} {row.note or ''}", flush=True)
