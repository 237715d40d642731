"""A cluster put together from its components in one process: what `sampan up` and the test library run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sampan.apiserver.config import ServerConfig
from sampan.apiserver.server import ApiServer
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.storage.backend import Backend

APISERVER, CONTROLLERS = "apiserver", "controllers"
COMPONENTS = (APISERVER, CONTROLLERS)
"""Those that there are, in the order they start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Which store: a list of etcd URLs wins, else a SQLite file, else memory."""

    etcd_servers: Sequence[str] = ()
    etcd_ca: Path | None = None
    etcd_cert: Path | None = None
    etcd_key: Path | None = None
    etcd_prefix: str = ""
    sqlite: Path | None = None

    def open(self, clock: Clock) -> Backend:
        if self.etcd_servers:
            from sampan.storage.etcd import EtcdBackend

            return EtcdBackend(
                endpoints=self.etcd_servers,
                ca=self.etcd_ca,
                cert=self.etcd_cert,
                key=self.etcd_key,
                prefix=self.etcd_prefix,
            )
        if self.sqlite is not None:
            from sampan.storage.sqlite import SqliteBackend

            return SqliteBackend(path=self.sqlite, clock=clock)
        from sampan.storage.memory import MemoryBackend

        return MemoryBackend(clock=clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    server: ServerConfig
    store: StoreConfig
    components: Sequence[str] = COMPONENTS
    controllers: Sequence[str] = ("*",)
    root_ca: bytes = b""
    """What pods are given to trust the server by."""


class Assembly:
    """`async with Assembly(config=…, clock=…) as cluster:` runs the components until the block is left."""

    def __init__(self, *, config: ClusterConfig, clock: Clock) -> None:
        self.config, self.clock = config, clock
        self.backend = config.store.open(clock)
        self.server = ApiServer(config=config.server, backend=self.backend, clock=clock)
        self._running = AsyncExitStack()

    async def __aenter__(self) -> Assembly:
        async with AsyncExitStack() as running:
            await running.enter_async_context(self.backend)
            await running.enter_async_context(self.server)
            if CONTROLLERS in self.config.components:
                await running.enter_async_context(_beside(self._controllers()))
            self._running = running.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    async def _controllers(self) -> None:
        from sampan.controllers.manager import COMPONENT, ControllerManager
        from sampan.controllers.table import ControllerConfig

        transport = self.server.loopback()
        manager = ControllerManager(
            client_for=lambda name: Client(transport=transport, clock=self.clock, component=name or COMPONENT),
            clock=self.clock,
            names=self.config.controllers,
            config=ControllerConfig(root_ca=self.config.root_ca.decode()),
        )
        await manager.run()


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs while the block lasts; its failure ends the block."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        yield
        task.cancel()
