"""Deployments from their creation until all their pods exist or run, in one process, on SQLite: the CPU time of API
server and controllers for each pod, alone and with scheduler and hollow nodes, and that of the cluster at rest."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks import Row
from sampan.api.types.apps_v1 import Deployment
from sampan.apiserver.config.server_config import ServerConfig
from sampan.cluster.assembly import Assembly
from sampan.cluster.cluster_config import COMPONENTS, ClusterConfig, StoreConfig
from sampan.cluster.nodes.nodes_config import NodesConfig
from sampan.host.clock import RealClock
from sampan.testing import builders

COUNT, REPLICAS, NODES = 1000, 3, 50
_AT_A_TIME = 20
_POLL_S = 0.5
_SETTLE_S, _REST_S = 20.0, 5.0
"""Events go on to be written for a while after the pods run."""


def rows() -> Iterator[Row]:
    alone, writes, _ = asyncio.run(_measure(("apiserver", "controllers"), 0, _is_made))
    note = f"{COUNT} deployments of {REPLICAS}, process time"
    yield Row("a pod of a deployment made, API server and controllers", alone, "ms", 8, note)
    yield Row("writes for a deployment made", writes, "count", 16, "with events")
    whole, writes, idle = asyncio.run(_measure(COMPONENTS, NODES, _is_available))
    yield Row("a pod of a deployment runs, everything included", whole, "ms", None, f"{note}; {NODES} hollow nodes")
    yield Row("writes for a deployment up", writes, "count", None, "with events, bindings and pods' statuses")
    yield Row("processor at rest after that", idle * 1000, "ms/core-s", None, "heartbeats of the nodes included")


def _is_made(deployment: Any) -> bool:
    status = deployment.status
    return bool(status.updatedReplicas == status.replicas == status.unavailableReplicas == REPLICAS)


def _is_available(deployment: Any) -> bool:
    return bool(deployment.status.availableReplicas == REPLICAS)


async def _measure(
    components: tuple[str, ...], nodes: int, is_done: Callable[[Any], bool]
) -> tuple[float, float, float]:
    """Return the CPU time of a pod, the writes of a deployment, and the share of a core that the cluster then uses."""
    async with _cluster(components, nodes) as cluster:
        deployments = cluster.client("bench").for_kind(Deployment)
        before, began = await cluster.backend.current_revision(), time.process_time()
        await _create(deployments)
        # Following each change would be part of the measured work.
        while not all(is_done(deployment) for deployment in (await deployments.list_all()).items):  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)
        spent = time.process_time() - began
        writes = await cluster.backend.current_revision() - before
        return spent / COUNT / REPLICAS * 1e3, writes / COUNT, await _at_rest()


async def _create(deployments: Any) -> None:
    for start in range(0, COUNT, _AT_A_TIME):
        names = [f"d{number:04d}" for number in range(start, min(start + _AT_A_TIME, COUNT))]
        made = (builders.deployment(name, replicas=REPLICAS, namespace="default") for name in names)
        await asyncio.gather(*(deployments.create(new) for new in made))


async def _at_rest() -> float:
    await asyncio.sleep(_SETTLE_S)
    began = time.process_time()
    await asyncio.sleep(_REST_S)
    return (time.process_time() - began) / _REST_S


@asynccontextmanager
async def _cluster(components: tuple[str, ...], nodes: int) -> AsyncIterator[Assembly]:
    with tempfile.TemporaryDirectory() as directory:
        config = ClusterConfig(
            server=ServerConfig(secure_port=0, advertise_address="192.0.2.1"),
            store=StoreConfig(sqlite=Path(directory) / "store.db"),
            components=components,
            nodes=NodesConfig(count=nodes),
        )
        async with Assembly(config=config, clock=RealClock()) as cluster:
            yield cluster
