"""The pipeline of an API server with a memory store, called without HTTP by an administrator."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sampan.api.scheme import builtin_scheme
from sampan.apiserver.admission.framework.chain import AdmissionChain
from sampan.apiserver.authz import PrivilegedGroupAuthorizer, UnionAuthorizer
from sampan.apiserver.endpoints import ApiEndpoints
from sampan.apiserver.handlers import ResourceHandlers
from sampan.apiserver.nonresource import nonresource_handlers
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.registry.behaviors import make_behavior
from sampan.apiserver.registry.kinds import find_handlers
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.registry.strategy_services import make_strategy_services
from sampan.apiserver.request.call import AUTHENTICATED, MASTERS, Call, Query, UserInfo
from sampan.host.clock import RealClock
from sampan.storage.memory import MemoryBackend

PODS = "/api/v1/namespaces/default/pods"
ADMIN = UserInfo("admin", "", (MASTERS, AUTHENTICATED))
JSON = {"Content-Type": "application/json", "Accept": "application/json"}


@asynccontextmanager
async def memory_registry() -> AsyncIterator[Registry]:
    tasks: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as group, MemoryBackend(clock=RealClock()) as backend:

        def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            tasks.append(group.create_task(work))
            return tasks[-1]

        yield Registry(
            scheme=builtin_scheme(),
            backend=backend,
            clock=RealClock(),
            start_task=start,
            make_behavior=make_behavior,
        )
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def memory_pipeline() -> AsyncIterator[Pipeline]:
    """A pipeline without admission, for calls whose user is known."""
    async with memory_registry() as registry:
        yield Pipeline(
            scheme=registry.scheme,
            authenticator=_NoAuthenticator(),
            authorizer=UnionAuthorizer(PrivilegedGroupAuthorizer()),
            endpoints=ApiEndpoints(
                registry=registry, admission=AdmissionChain([]), services=make_strategy_services(registry)
            ),
            handlers=ResourceHandlers(find_builtin=find_handlers),
            nonresource_handlers=nonresource_handlers(registry),
        )


class _NoAuthenticator:
    async def authenticate(self, call: Call) -> UserInfo:
        raise NotImplementedError


def make_call(method: str, path: str, body: bytes, headers: dict[str, str], query: str = "") -> Call:
    return Call(method=method, path=path, query=Query(query), headers=headers, body=body, user=ADMIN)


async def cpu_us(pipeline: Pipeline, calls: Sequence[Call]) -> float:
    """Return the CPU microseconds of one of these calls."""
    start = time.process_time()
    for call in calls:
        await pipeline.serve_as(call)
    return (time.process_time() - start) / len(calls) * 1e6
