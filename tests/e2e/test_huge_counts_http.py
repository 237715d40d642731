"""An attacker requests two billion pods: the server still responds, also after a restart."""

import asyncio
import time
from pathlib import Path
from typing import Any

from sampan.testing import Cluster
from tests.apiserver.http.wire import Wire
from tests.input_cost import is_cpu_time_within

HUGE = 2_000_000_000
NAMESPACE = "crowd"
LONGEST_S = 0.5
"""Limit of CPU time between two turns of the event loop. Two billion objects would take hours."""
POD = {"containers": [{"name": "c", "image": "i"}]}
LABELS = {"app": "crowd"}
SETS: list[tuple[str, dict[str, Any]]] = [
    ("statefulsets", {"serviceName": "s", "podManagementPolicy": "Parallel"}),
    ("statefulsets", {"serviceName": "s", "podManagementPolicy": "OrderedReady"}),
    ("replicasets", {}),
    ("deployments", {}),
]


async def create(wire: Wire, path: str, value: dict[str, Any]) -> None:
    response = await wire.request("POST", path, value)
    assert response.code == 201, response.text


async def fill(port: int) -> None:
    async with Wire(port) as wire:
        await create(wire, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "5"}}}
        await create(wire, f"/api/v1/namespaces/{NAMESPACE}/resourcequotas", quota)
        async with asyncio.timeout(60):
            path = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas/few"
            while "hard" not in (await wire.request("GET", path)).json.get("status", {}):
                pass
        for number, (plural, more) in enumerate(SETS):
            labels = {**LABELS, "set": str(number)}
            template = {"metadata": {"labels": labels}, "spec": POD}
            spec = {"replicas": HUGE, "selector": {"matchLabels": labels}, "template": template, **more}
            value = {"metadata": {"name": f"set-{number}"}, "spec": spec}
            await create(wire, f"/apis/apps/v1/namespaces/{NAMESPACE}/{plural}", value)
        job = {"template": {"spec": {**POD, "restartPolicy": "Never"}}, "parallelism": HUGE, "completions": HUGE}
        await create(wire, f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", {"metadata": {"name": "job"}, "spec": job})


async def longest_block(until: asyncio.Event) -> float:
    """Return the most CPU time between two turns of the event loop of the cluster."""
    longest = 0.0
    while not until.is_set():
        before = time.thread_time()
        await asyncio.sleep(0.002)
        longest = max(longest, time.thread_time() - before)
    return longest


async def longest_block_during_requests(port: int, rounds: int) -> float:
    """Request /livez repeatedly in the event loop of the cluster, and return its longest block."""
    done = asyncio.Event()
    async with asyncio.timeout(300), asyncio.TaskGroup() as group, Wire(port) as wire:
        holding = group.create_task(longest_block(done))
        for _ in range(rounds):
            assert (await wire.request("GET", "/livez")).code == 200
        done.set()
    return holding.result()


def test_livez_responds_while_workloads_request_two_billion_pods(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    with Cluster(insecure=True, store=store) as cluster:
        asyncio.run(fill(port_of(cluster)))
        assert is_cpu_time_within(cluster.run(longest_block_during_requests(port_of(cluster), 1000), 300), LONGEST_S)
    with Cluster(insecure=True, store=store) as again:
        assert is_cpu_time_within(again.run(longest_block_during_requests(port_of(again), 500), 300), LONGEST_S)
        asyncio.run(delete(port_of(again)))


async def delete(port: int) -> None:
    """Delete the namespace, which must still be possible."""
    async with asyncio.timeout(120), Wire(port) as wire:
        assert (await wire.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}")).code == 200
        while (await wire.request("GET", f"/api/v1/namespaces/{NAMESPACE}")).code != 404:
            pass


def port_of(cluster: Cluster) -> int:
    return int(cluster.insecure_url.rpartition(":")[2])
