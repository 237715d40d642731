"""What runs beside the kubelet of each real node: service proxy, DNS server, network policies.

`NodeNetworks` is shared by the real nodes of the process. Each component that reads the API has a user of its own and
one InformerFactory, which all nodes share. A component is connected in `NodeNetwork._workers`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import MappingProxyType

from sampan.machinery.activity import Activity
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.machinery.informer import InformerFactory
from sampan.network.nodes import NodeAttachment

log = logging.getLogger(__name__)

PROXY_USER = "system:kube-proxy"
_USERS: Sequence[str] = (PROXY_USER,)
"""The users of the components, which need roles (`component_roles`)."""
_RESTART_S = 5.0

Worker = Callable[[], Awaitable[None]]


class NodeNetworks:
    """The networks of the real nodes of this process. `async with` runs the informers that they share."""

    def __init__(
        self, *, components: Sequence[str], client_for: Callable[[str], Client], clock: Clock, activity: Activity
    ) -> None:
        """`client_for` returns a client with the permissions of a user. `components` are those of the cluster."""
        self._components, self._clock = components, clock
        self._informers = {user: InformerFactory(client=client_for(user), activity=activity) for user in _USERS}
        self._running = AsyncExitStack()

    async def __aenter__(self) -> NodeNetworks:
        for informers in self._informers.values():
            await self._running.enter_async_context(informers)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    def of(self, attachment: NodeAttachment) -> NodeNetwork:
        return NodeNetwork(
            attachment=attachment,
            components=self._components,
            informers=MappingProxyType(self._informers),
            clock=self._clock,
        )


class NodeNetwork:
    """The network of one node. It exists before the kubelet of the node, and ends after the node's pods have ended."""

    def __init__(
        self,
        *,
        attachment: NodeAttachment,
        components: Sequence[str],
        informers: Mapping[str, InformerFactory],
        clock: Clock,
    ) -> None:
        self.attachment = attachment
        self._components, self._informers, self._clock = components, informers, clock

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the components of the node for the duration of the block."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._keep(name, worker)) for name, worker in self._workers().items()]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    def _workers(self) -> dict[str, Worker]:
        """Return the coroutine functions of the node's components by name. Each runs until it is cancelled."""
        return {}

    async def _keep(self, name: str, worker: Worker) -> None:
        """Run a component, and restart it if it fails: the node and its other components keep running."""
        while True:
            try:
                await worker()
            except Exception:
                log.exception("node %s: %s failed; restarting in %g s", self.attachment.node, name, _RESTART_S)
            await self._clock.sleep(_RESTART_S)
