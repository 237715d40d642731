"""An API server in this process with a memory store, a loopback transport and an HTTP port, for tests of clients."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from sampan.api.feature_gates import FeatureGates
from sampan.api.scheme import Scheme, builtin_scheme
from sampan.apiserver.admission.framework.chain import AdmissionChain
from sampan.apiserver.admission.framework.contract import RegisteredPlugin
from sampan.apiserver.authz import UnionAuthorizer
from sampan.apiserver.authz.modes import make_authorizers
from sampan.apiserver.authz.node import NodeGraph
from sampan.apiserver.authz.rbac import RbacIndex
from sampan.apiserver.authz.rbac.bootstrap_policy import default_objects
from sampan.apiserver.endpoints import ApiEndpoints, ComponentChecks
from sampan.apiserver.handlers import ResourceHandlers
from sampan.apiserver.http.server import HttpServer, Listener
from sampan.apiserver.loopback import LoopbackTransport
from sampan.apiserver.nonresource import nonresource_handlers
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.registry.behaviors import make_behavior
from sampan.apiserver.registry.kinds import find_handlers
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.registry.strategy_services import make_strategy_services
from sampan.apiserver.request.call import AUTHENTICATED, MASTERS, Call, UserInfo
from sampan.host.clock import Clock, RealClock, VirtualClock
from sampan.machinery.client import Client, Transport
from sampan.machinery.client.access import Access
from sampan.machinery.client.http import HttpTransport
from sampan.storage.memory import MemoryBackend
from tests.shared_objects import modified_shared_objects

ADMIN = UserInfo("admin", "admin", (MASTERS, AUTHENTICATED))
TRANSPORTS = ("loopback", "http")


class _EverybodyIsAdmin:
    async def authenticate(self, call: Call) -> UserInfo:
        return ADMIN


@cache
def _default_objects() -> tuple[Any, ...]:
    """Return the roles and bindings of a new cluster, which are only read; creating them takes a third of a start."""
    return tuple(default_objects())


def usual_authorizers(registry: Registry) -> UnionAuthorizer:
    """Return the authorizers of a new cluster."""
    index = RbacIndex()
    for obj in _default_objects():
        index.put(obj)
    return UnionAuthorizer(*make_authorizers(("Node", "RBAC"), index, NodeGraph(registry=registry)))


@dataclass(slots=True)
class Server:
    clock: Clock
    scheme: Scheme
    registry: Registry
    pipeline: Pipeline
    backend: MemoryBackend
    http: HttpServer
    url: str
    loopback: LoopbackTransport
    web: HttpTransport

    def transport(self, name: str) -> Transport:
        return self.loopback if name == "loopback" else self.web

    def client(self, transport: str = "loopback", component: str = "test") -> Client:
        return Client(transport=self.transport(transport), clock=self.clock, component=component)


@asynccontextmanager
async def running_api_server(
    clock: Clock | None = None,
    scheme: Scheme | None = None,
    plugins: Sequence[RegisteredPlugin] = (),
    *,
    make_plugins: Callable[[Registry], Sequence[RegisteredPlugin]] | None = None,
    component_checks: ComponentChecks | None = None,
    feature_gates: FeatureGates | None = None,
) -> AsyncIterator[Server]:
    """`make_plugins` returns the admission plugins, if they need the registry."""
    clock = clock or RealClock()
    scheme = scheme or builtin_scheme()
    tasks: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as group, MemoryBackend(clock=clock) as backend:

        def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            tasks.append(group.create_task(work))
            return tasks[-1]

        registry = Registry(scheme=scheme, backend=backend, clock=clock, start_task=start, make_behavior=make_behavior)
        authorizer = usual_authorizers(registry)
        pipeline = Pipeline(
            scheme=scheme,
            authenticator=_EverybodyIsAdmin(),
            authorizer=authorizer,
            endpoints=ApiEndpoints(
                registry=registry,
                admission=AdmissionChain(make_plugins(registry) if make_plugins is not None else plugins),
                services=make_strategy_services(registry, feature_gates=feature_gates),
                authorizer=authorizer,
                component_checks=component_checks,
            ),
            handlers=ResourceHandlers(find_builtin=find_handlers),
            nonresource_handlers=nonresource_handlers(registry),
        )
        http = HttpServer(pipeline=pipeline, start_task=start)
        (port,) = await http.listen([Listener("127.0.0.1", 0)])
        url = f"http://127.0.0.1:{port}"
        loopback = LoopbackTransport(pipeline=pipeline, user=ADMIN)
        forget = clock.on_idle(loopback.activity.idle) if isinstance(clock, VirtualClock) else lambda: None
        try:
            async with HttpTransport(Access(server=url)) as web:
                yield Server(clock, scheme, registry, pipeline, backend, http, url, loopback, web)
            assert modified_shared_objects(registry) == []
        finally:
            forget()
            await http.close(0.01)
            for task in tasks:
                task.cancel()
