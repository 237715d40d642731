"""A whole API server in this process with some of the controllers, on a virtual clock."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sampan.apiserver.auth.accounts import account
from sampan.apiserver.call import AUTHENTICATED, User
from sampan.apiserver.config import ServerConfig
from sampan.apiserver.loopback import LoopbackTransport, altered
from sampan.apiserver.server import ApiServer
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.identities import MANAGER, NAMESPACE, account_of
from sampan.controllers.manager import ControllerManager
from sampan.machinery.client import Client
from sampan.machinery.clock import VirtualClock
from sampan.storage.memory import MemoryBackend

CONFIG = ControllerConfig(root_ca="the bundle")


@dataclass(slots=True)
class Cluster:
    clock: VirtualClock
    backend: MemoryBackend
    server: ApiServer
    transport: LoopbackTransport

    @property
    def client(self) -> Client:
        return self.make_client("test")

    def make_client(self, component: str) -> Client:
        return Client(transport=self.transport, clock=self.clock, component=component)

    def controller_client(self, name: str) -> Client:
        """With the controller's own rights; with "" those of the caches."""
        user = account(NAMESPACE, account_of(name)) if name else User(MANAGER, groups=(AUTHENTICATED,))
        return Client(transport=self.transport.acting_as(user), clock=self.clock, component="kube-controller-manager")

    @asynccontextmanager
    async def running(self, *names: str, config: ControllerConfig = CONFIG) -> AsyncIterator[ControllerManager]:
        """Run these controllers."""
        manager = ControllerManager(
            client_for=self.controller_client,
            clock=self.clock,
            names=names,
            config=config,
        )
        forget = self.clock.on_idle(manager.activity.idle)
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(manager.run())
                await self.clock.settle()
                yield manager
                task.cancel()
        finally:
            forget()

    async def revision(self) -> int:
        """Rises with every write."""
        return await self.backend.current_revision()


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    clock = VirtualClock()
    server_config = ServerConfig(secure_port=0, advertise_address="192.0.2.1")
    async with (
        asyncio.timeout(60),
        MemoryBackend(clock=clock) as backend,
        ApiServer(config=server_config, backend=backend, clock=clock) as server,
    ):
        transport = server.loopback()
        forget = clock.on_idle(transport.activity.idle)
        try:
            yield Cluster(clock, backend, server, transport)
            assert altered(server.registry) == []
        finally:
            forget()


async def second_run_writes_nothing(cluster: Cluster, *names: str) -> None:
    """Start the controllers anew: as everything is as they want it, they leave it alone."""
    before = await cluster.revision()
    async with cluster.running(*names):
        await cluster.clock.advance(60)
    assert await cluster.revision() == before


def names_of(objects: Sequence[Any]) -> list[str]:
    return sorted(found.metadata.name for found in objects)
