"""Resources for which the registry conformance suite runs, and servers without HTTP to run it on."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from sampan.api.resources.resource import GroupVersionKind, Resource, Subresource
from sampan.api.schema.tree import from_openapi
from sampan.api.scheme import Scheme, builtin_scheme
from sampan.apiserver.admission.framework.chain import AdmissionChain
from sampan.apiserver.authz import PrivilegedGroupAuthorizer, UnionAuthorizer
from sampan.apiserver.endpoints import ApiEndpoints
from sampan.apiserver.handlers import ResourceHandlers
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.registry.behaviors import make_behavior
from sampan.apiserver.registry.kinds import find_handlers
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.registry.strategy_services import make_strategy_services
from sampan.apiserver.request.call import Call, UserInfo
from sampan.apiserver.response.responses import ApiResponse
from sampan.host.clock import Clock, RealClock
from sampan.storage.backend import Backend
from sampan.storage.memory import MemoryBackend
from sampan.testing.registry_conformance import RegistrySubject
from tests.shared_objects import modified_shared_objects

OpenBackend = Callable[[], AbstractAsyncContextManager[Backend]]

GADGETS = Resource(
    group="example.com",
    version="v1",
    kind="Gadget",
    plural="gadgets",
    singular="gadget",
    storage=GroupVersionKind(group="example.com", version="v1", kind="Gadget"),
    storage_prefix="/registry/example.com/gadgets",
    subresources=(Subresource(name="status", verbs=("get", "patch", "update"), kind="Gadget"),),
    schema=from_openapi(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "size": {"type": "integer"},
                        "colour": {"type": "string", "default": "red"},
                        "list": {"type": "array", "items": {"type": "string"}},
                    },
                },
                "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
            },
        }
    ),
)


class _NoAuthenticator:
    async def authenticate(self, call: Call) -> UserInfo:
        raise NotImplementedError


def memory_backend() -> MemoryBackend:
    return MemoryBackend(clock=RealClock())


def scheme() -> Scheme:
    """Return a scheme of the built-in resources and a dict-backed resource that was added at run time."""
    scheme = builtin_scheme()
    scheme.add(GADGETS)
    return scheme


@asynccontextmanager
async def open_pipelines(
    count: int = 1, open_backend: OpenBackend = memory_backend, clock: Clock | None = None
) -> AsyncIterator[list[Pipeline]]:
    """Open API servers that share a store."""
    tasks: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as group, open_backend() as backend:

        def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            tasks.append(group.create_task(work))
            return tasks[-1]

        registries = [
            Registry(
                scheme=scheme(),
                backend=backend,
                clock=clock or RealClock(),
                start_task=start,
                make_behavior=make_behavior,
            )
            for _ in range(count)
        ]
        try:
            yield [_pipeline(registry) for registry in registries]
            assert [modified_shared_objects(registry) for registry in registries] == [[]] * count
        finally:
            for task in tasks:
                task.cancel()


def _pipeline(registry: Registry) -> Pipeline:
    return Pipeline(
        scheme=registry.scheme,
        authenticator=_NoAuthenticator(),
        authorizer=UnionAuthorizer(PrivilegedGroupAuthorizer()),
        endpoints=ApiEndpoints(
            registry=registry, admission=AdmissionChain([]), services=make_strategy_services(registry)
        ),
        handlers=ResourceHandlers(find_builtin=find_handlers),
        nonresource_handlers={},
    )


class RoundRobin:
    """Sends each request to the next server in turn."""

    def __init__(self, servers: list[Pipeline]) -> None:
        self._servers = itertools.cycle(servers)

    async def serve_as(self, call: Call) -> ApiResponse:
        return await next(self._servers).serve_as(call)


@asynccontextmanager
async def _open_pipeline(open_backend: OpenBackend) -> AsyncIterator[Pipeline]:
    async with open_pipelines(1, open_backend) as (pipeline,):
        yield pipeline


def config_maps(open_backend: OpenBackend = memory_backend) -> RegistrySubject:
    return RegistrySubject(
        open=lambda: _open_pipeline(open_backend),
        path="/api/v1/namespaces/default/configmaps",
        content=lambda number: {"data": {"number": str(number)}},
        number=lambda value: int(value["data"]["number"]),
    )


def deployments(open_backend: OpenBackend = memory_backend) -> RegistrySubject:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return RegistrySubject(
        open=lambda: _open_pipeline(open_backend),
        path="/apis/apps/v1/namespaces/default/deployments",
        content=lambda number: {"spec": {"replicas": number}},
        number=lambda value: int(value["spec"]["replicas"]),
        counts_generation=True,
        fixed={"spec": {"selector": {"matchLabels": labels}, "template": template}},
    )


def gadgets(open_backend: OpenBackend = memory_backend) -> RegistrySubject:
    return RegistrySubject(
        open=lambda: _open_pipeline(open_backend),
        path="/apis/example.com/v1/namespaces/default/gadgets",
        content=lambda number: {"spec": {"size": number}},
        number=lambda value: int(value["spec"]["size"]),
        needs_version=True,
        counts_generation=True,
        repeats_errors=True,
        fixed={"kind": "Gadget", "apiVersion": "example.com/v1"},
    )


SUBJECTS = {"configmaps": config_maps, "deployments": deployments, "gadgets": gadgets}
