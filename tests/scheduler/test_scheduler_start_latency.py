"""A scheduler that starts with a large cluster never blocks the event loop for long."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.cli.main import COLLECTED_AFTER
from sampan.scheduler.plugins.registry import preload
from sampan.scheduler.scheduler import make_scheduler
from tests.controllers.cluster import Cluster, cluster
from tests.eventually import eventually
from tests.input_cost import is_cpu_time_within
from tests.scheduler.event_loop_hold import LONGEST_S, longest_hold, node, pod

NODES, PODS, NEW, ROUNDS = 2000, 14_000, 10, 3


@contextmanager
def server_gc_settings() -> Iterator[None]:
    """Use the garbage collector settings of `sampan up` and of the components."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def load_modules() -> None:
    """Import the modules that `sampan up` imports in a thread."""
    preload()
    for kind in ("pods", "nodes"):
        import_module(f"sampan.apiserver.registry.kinds.{kind}")


async def fill(cluster: Cluster) -> None:
    """Write nodes and bound pods directly to the store."""
    put = cluster.backend.put
    for number in range(NODES):
        new_node = node(number)
        await put(f"/registry/minions/{new_node.metadata.name}", json.encode(new_node))
    for number in range(PODS):
        new_pod = pod(f"p{number}", f"n{number % NODES:05d}", "10m", 0)
        await put(f"/registry/pods/default/{new_pod.metadata.name}", json.encode(new_pod))


async def measure_start_hold(cluster: Cluster, round: int) -> float:
    """How long a scheduler that starts with ten pending pods blocks the event loop at most."""
    client = cluster.make_client("kube-scheduler")
    scheduler = make_scheduler(client=client, clock=cluster.clock)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        probe = group.create_task(longest_hold(stop))
        await asyncio.sleep(0)
        task = group.create_task(scheduler.run())
        for number in range(NEW):
            await cluster.client.for_kind(Pod).create(pending_pod(f"q{round}-{number}"))
        await eventually(lambda: scheduler.metrics.count("scheduled") >= NEW, poll_s=0.001)
        stop.set()
        task.cancel()
    return await probe


def pending_pod(name: str) -> Pod:
    new_pod = pod(name, "", "10m", 0)
    new_pod.metadata.uid, new_pod.spec.priority = "", None
    return new_pod


def test_a_start_with_many_pods_does_not_block_the_event_loop() -> None:
    """Slow code shows in every round, a busy machine only in some of them: one good round is enough."""

    async def main() -> list[float]:
        async with cluster() as served:
            account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
            await served.client.for_kind(ServiceAccount).create(account)
            await fill(served)
            await asyncio.to_thread(load_modules)
            holds: list[float] = []
            with server_gc_settings():
                while len(holds) < ROUNDS and (not holds or min(holds) >= LONGEST_S):
                    holds.append(await measure_start_hold(served, len(holds)))
            return holds

    holds = asyncio.run(main())
    assert is_cpu_time_within(min(holds), LONGEST_S), holds
