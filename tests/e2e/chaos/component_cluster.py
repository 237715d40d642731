"""A cluster whose components can be killed one by one: API server, controller manager, scheduler, nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

from sampan.api.types.apps_v1 import Deployment, StatefulSet
from sampan.api.types.core_v1 import Node, Pod
from sampan.apiserver.bootstrap import SYSTEM
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.loopback import LoopbackTransport
from sampan.apiserver.server import ApiServer
from sampan.host.activity import Activity
from sampan.host.clock import VirtualClock
from sampan.kubelet import hollow_nodes
from sampan.kubelet.fleet import Fleet
from sampan.machinery import errors
from sampan.storage.memory import MemoryBackend
from tests.controllers.cluster import Cluster
from tests.e2e.chaos.history import History
from tests.e2e.chaos.interruptible_transport import Line, LineTransport
from tests.e2e.chaos.workloads import IN_DEFAULT, NAMESPACE, Sizes, all_workloads
from tests.shared_objects import modified_shared_objects

CONFIG = ServerConfig(secure_port=0, advertise_address="192.0.2.1")


@dataclass(slots=True)
class ChaosCluster:
    cluster: Cluster
    line: Line
    random: Random
    history: History
    fleet: Fleet
    activity: Activity
    parts: dict[str, AsyncExitStack] = field(default_factory=dict)
    off: set[str] = field(default_factory=set)
    """Names of the nodes that are powered off."""

    # -- parts -------------------------------------------------------------------------------------------------------

    async def start_server(self) -> None:
        part = AsyncExitStack()
        c = self.cluster
        c.server = await part.enter_async_context(ApiServer(config=CONFIG, backend=c.backend, clock=c.clock))
        self.line.open(LoopbackTransport(pipeline=c.server.pipeline, user=SYSTEM, activity=self.activity))
        self.parts["server"] = part

    async def start_controllers(self) -> None:
        part = self.parts["controllers"] = AsyncExitStack()
        await part.enter_async_context(self.cluster.running("*"))

    async def start_scheduler(self) -> None:
        part = self.parts["scheduler"] = AsyncExitStack()
        await part.enter_async_context(self.cluster.running_scheduler())

    async def stop(self, name: str) -> None:
        await self.parts.pop(name).aclose()

    # -- what goes wrong ---------------------------------------------------------------------------------------------

    async def kill_controllers(self) -> None:
        await self._wait_a_random_time()
        await self.stop("controllers")
        await self.cluster.clock.advance(self.random.choice([0, 1, 20]))
        await self.start_controllers()

    async def kill_scheduler(self) -> None:
        await self._wait_a_random_time()
        await self.stop("scheduler")
        await self.cluster.clock.advance(self.random.choice([0, 1, 20]))
        await self.start_scheduler()

    async def restart_server(self) -> None:
        await self._wait_a_random_time()
        await self.line.cut()
        assert modified_shared_objects(self.cluster.server.registry) == []
        await self.stop("server")
        await self.cluster.clock.advance(self.random.choice([0, 1, 20]))
        await self.start_server()

    async def delete_pods(self) -> None:
        pods = (await self.cluster.client.for_kind(Pod).list(IN_DEFAULT)).items
        for pod in self.random.sample(pods, min(len(pods), self.random.randrange(1, 10))):
            with suppress(errors.NotFound):
                await self.cluster.client.for_kind(Pod).delete(pod.metadata.name, NAMESPACE)

    async def replace_node(self) -> None:
        """Delete a node and register a new node of the same name."""
        name = await self._choose_node()
        await self.cluster.client.for_kind(Node).delete(name)
        self.off.discard(name)
        await self.cluster.clock.advance(self.random.choice([0, 10, 60]))
        await self.fleet.register([name])

    async def switch_off(self) -> None:
        name = await self._choose_node()
        await self._set_power(name, hollow_nodes.OFF)
        self.off.add(name)

    async def switch_on(self) -> None:
        for name in sorted(self.off):
            await self._set_power(name, None)
        self.off.clear()

    async def roll_out(self) -> None:
        """Change the image of a random Deployment or StatefulSet."""
        client = self.cluster.client
        kind: type[Any] = self.random.choice([Deployment, StatefulSet])
        name = self.random.choice((await client.for_kind(kind).list(IN_DEFAULT)).items).metadata.name
        containers = [{"name": "c", "image": f"image-{self.random.random()}"}]
        await client.for_kind(kind).patch(name, {"spec": {"template": {"spec": {"containers": containers}}}}, NAMESPACE)

    async def disturb(self) -> None:
        await self.random.choice(
            [
                self.kill_controllers,
                self.kill_scheduler,
                self.restart_server,
                self.delete_pods,
                self.delete_pods,
                self.replace_node,
                self.switch_off,
                self.switch_on,
                self.roll_out,
            ]
        )()

    # -- what runs ---------------------------------------------------------------------------------------------------

    def list_pods_running_twice(self) -> list[str]:
        """Return the names of pods that run on two nodes, or twice on one."""
        names = [
            self.history.pods[uid].metadata.name
            for kubelet in self.fleet.running_nodes()
            for uid in kubelet.runtime.list_pod_uids()
            if self._is_running(kubelet.runtime, uid)
        ]
        return sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []

    def _is_running(self, runtime: Any, uid: str) -> bool:
        pod = self.history.pods.get(uid)
        return pod is not None and any(container.state == "running" for container in runtime.pod_report(pod).containers)

    async def _choose_node(self) -> str:
        nodes: list[str] = sorted(
            node.metadata.name for node in (await self.cluster.client.for_kind(Node).list()).items
        )
        return self.random.choice(nodes)

    async def _set_power(self, name: str, state: str | None) -> None:
        with suppress(errors.NotFound):
            await self.cluster.client.for_kind(Node).patch(
                name, {"metadata": {"annotations": {hollow_nodes.POWER: state}}}
            )

    async def _wait_a_random_time(self) -> None:
        """Delete pods and let tasks run for a random number of turns, so that a component is killed in the middle of
        its work."""
        await self.delete_pods()
        for _ in range(self.random.randrange(200)):
            await asyncio.sleep(0)


@asynccontextmanager
async def chaos_cluster(seed: int, sizes: Sizes) -> AsyncIterator[ChaosCluster]:
    clock, line, activity = VirtualClock(), Line(), Activity()
    transport = cast(LoopbackTransport, LineTransport(line=line, user=SYSTEM))
    forgets = [clock.on_idle(activity.idle), clock.on_idle(line.idle)]
    try:
        async with AsyncExitStack() as running:
            backend = await running.enter_async_context(MemoryBackend(clock=clock))
            c = Cluster(clock, backend, cast(ApiServer, None), transport)
            history = History(backend=backend)
            chaos = ChaosCluster(c, line, Random(seed), history, cast(Fleet, None), activity)
            group = await running.enter_async_context(asyncio.TaskGroup())
            follower = group.create_task(history.follow())
            await chaos.start_server()
            running.push_async_callback(chaos.stop, "server")
            await chaos.start_controllers()
            await chaos.start_scheduler()
            chaos.fleet = await running.enter_async_context(c.nodes(*(f"node-{at}" for at in range(sizes.nodes))))
            for workload in all_workloads(sizes):
                await c.client.for_kind(type(workload)).create(workload)
            yield chaos
            await chaos.stop("scheduler")
            await chaos.stop("controllers")
            follower.cancel()
    finally:
        for forget in forgets:
            forget()
