"""Informers shared by all users of the same objects."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from sampan.api.resources.resource import Resource
from sampan.host.activity import Activity
from sampan.machinery.client.client import Client, ResourceClient
from sampan.machinery.client.codecs import resource_of
from sampan.machinery.client.options import EVERYTHING, Selection
from sampan.machinery.control_loop.supervision import NoSupervision, Supervision
from sampan.machinery.informer.informer import Informer
from sampan.machinery.informer.reflector import Reflector, ReflectorConfig, ReflectorSink

T = TypeVar("T")

_InformerKey = tuple[str, str, str, Selection, bool]


class InformerFactory:
    """`async with factory:` runs the informers that were requested, and those requested later; leaving stops them."""

    def __init__(
        self,
        *,
        client: Client,
        activity: Activity | None = None,
        config: ReflectorConfig | None = None,
        supervision: Supervision | None = None,
    ) -> None:
        self._client, self._config = client, config
        self._supervision = supervision or NoSupervision()
        self.activity = activity or Activity()
        self._informers: dict[_InformerKey, Informer[Any]] = {}
        self._running = AsyncExitStack()
        self._running_informers: dict[Informer[Any] | Reflector, asyncio.Task[None]] = {}
        self._reflectors: dict[Reflector, str] = {}
        """Reflectors without an informer, and the resources that they watch."""
        self._tasks: asyncio.TaskGroup | None = None

    def for_kind(self, type: type[T], selection: Selection = EVERYTHING) -> Informer[T]:
        return self.informer(resource_of(type), selection)

    def informer(
        self, resource: Resource, selection: Selection = EVERYTHING, *, metadata_only: bool = False
    ) -> Informer[Any]:
        key = (resource.group, resource.version, resource.plural, selection, metadata_only)
        informer = self._informers.get(key)
        if informer is None:
            source = self._client.metadata(resource) if metadata_only else self._client.resource(resource)
            informer = Informer(source=source, selection=selection, activity=self.activity, config=self._config)
            self._informers[key] = informer
            self._start(informer)
        return informer

    def forget(self, resource: Resource, selection: Selection = EVERYTHING, *, metadata_only: bool = False) -> None:
        """Stop an informer that is no longer needed, such as that of a resource that is no longer served."""
        key = (resource.group, resource.version, resource.plural, selection, metadata_only)
        informer = self._informers.pop(key, None)
        if informer is not None and (task := self._running_informers.pop(informer, None)) is not None:
            task.cancel()

    def follow(
        self, source: ResourceClient[Any], sink: ReflectorSink, selection: Selection = EVERYTHING
    ) -> Callable[[], None]:
        """Run a reflector into a sink, for components with a cache of their own. Return a function that stops it."""
        reflector = Reflector(source=source, sink=sink, selection=selection, config=self._config)
        self._reflectors[reflector] = source.resource.qualified
        self._start_reflector(reflector)

        def stop() -> None:
            self._reflectors.pop(reflector, None)
            if (task := self._running_informers.pop(reflector, None)) is not None:
                task.cancel()

        return stop

    def list_unsynced(self) -> list[str]:
        """Return the resources of the informers that are not synced yet."""
        return [informer.resource.qualified for informer in self._informers.values() if not informer.synced.is_set()]

    async def wait_synced(self) -> None:
        """Wait until every informer requested so far is synced."""
        for informer in list(self._informers.values()):
            await informer.synced.wait()

    async def __aenter__(self) -> "InformerFactory":
        self._tasks = await self._running.enter_async_context(asyncio.TaskGroup())
        try:
            for informer in list(self._informers.values()):
                self._start(informer)
                await asyncio.sleep(0)  # the first request for a kind is slow: let other tasks run in between
            for reflector in self._reflectors:
                self._start_reflector(reflector)
        except BaseException:  # cancelled: without this the informers would outlive the task that owns them
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._tasks = None
        for task in self._running_informers.values():
            task.cancel()
        self._running_informers.clear()
        await self._running.aclose()

    def _start(self, informer: Informer[Any]) -> None:
        if self._tasks is not None:
            name = f"informer of {informer.resource.qualified}"
            work = self._supervision.run(name, informer.run)
            self._running_informers[informer] = self._tasks.create_task(work, name=name)

    def _start_reflector(self, reflector: Reflector) -> None:
        if self._tasks is not None:
            name = f"reflector of {self._reflectors[reflector]}"
            work = self._supervision.run(name, reflector.run)
            self._running_informers[reflector] = self._tasks.create_task(work, name=name)
