"""Controllers with stale caches: watch events reach them only when the test delivers them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from sampan.api.types.core_v1 import Pod
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.manager import ControllerManager
from sampan.machinery.client import ADDED, DELETED, Client, Selection
from sampan.machinery.client.codecs import ObjectCodec
from sampan.machinery.client.transport import Events, Request, Response, Transport, WatchEvent
from tests.controllers.cluster import CONFIG, Cluster
from tests.controllers.workloads.hand_driven_pods import NAMESPACE


class Lag:
    """A transport whose watches deliver one event at a time, when the test calls `step`. `pace` is the probability
    with which a step delivers an event."""

    def __init__(self, inner: Transport, seed: int, pace: float) -> None:
        self._inner, self._random, self._pace = inner, Random(seed), pace
        self._waiting: list[asyncio.Event] = []
        self.is_on = False

    async def send(self, request: Request) -> Response:
        return await self._inner.send(request)

    @asynccontextmanager
    async def watch(self, request: Request, codec: ObjectCodec) -> AsyncIterator[Events]:
        async with self._inner.watch(request, codec) as events:
            yield self._delay_events(events)

    async def close(self) -> None:
        await self._inner.close()

    def step(self) -> bool:
        """Deliver an event of a random watch, with probability `pace`; return False if no event waits."""
        if not self._waiting:
            return False
        if self._random.random() < self._pace:
            self._waiting.pop(self._random.randrange(len(self._waiting))).set()
        return True

    async def _delay_events(self, events: Events) -> AsyncIterator[Sequence[WatchEvent]]:
        async for batch in events:
            for event in batch:
                if self.is_on:
                    turn = asyncio.Event()
                    self._waiting.append(turn)
                    await turn.wait()
                yield [event]


@asynccontextmanager
async def lagging_controller(
    cluster: Cluster, name: str, seed: int, *, pace: float = 1, config: ControllerConfig = CONFIG
) -> AsyncIterator[Lag]:
    """Run the controller with caches that lag behind the server."""
    lag = Lag(cluster.transport, seed, pace)

    def client_for(component: str) -> Client:
        if component:
            return cluster.controller_client(component)
        return Client(transport=lag, clock=cluster.clock, component="kube-controller-manager")

    manager = ControllerManager(client_for=client_for, clock=cluster.clock, names=[name], config=config)
    forget = cluster.clock.on_idle(manager.activity.idle)
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(manager.run())
            await cluster.clock.settle()
            lag.is_on = True
            yield lag
            task.cancel()
    finally:
        forget()


@asynccontextmanager
async def pod_history(cluster: Cluster) -> AsyncIterator[list[tuple[str, str, str]]]:
    """Creations and deletions of pods in their order: ADDED or DELETED, name, image."""
    entries: list[tuple[str, str, str]] = []

    async def record() -> None:
        async with cluster.client.for_kind(Pod).watch(Selection(namespace=NAMESPACE)) as events:
            async for batch in events:
                for event in batch:
                    if event.type in (ADDED, DELETED):
                        pod: Any = event.object
                        entries.append((event.type, event.key.name, pod.spec.containers[0].image))

    async with asyncio.TaskGroup() as group:
        task = group.create_task(record())
        yield entries
        task.cancel()
