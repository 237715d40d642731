"""Several API servers on one store, without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from sampan.api.scheme import builtin_scheme
from sampan.apiserver.admission.framework.chain import AdmissionChain
from sampan.apiserver.authz import PrivilegedGroupAuthorizer, UnionAuthorizer
from sampan.apiserver.endpoints import ApiEndpoints
from sampan.apiserver.handlers import ResourceHandlers
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.registry.allocation import ServiceRanges
from sampan.apiserver.registry.behaviors import make_behavior
from sampan.apiserver.registry.kinds import find_handlers
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.registry.strategy_services import make_strategy_services
from sampan.apiserver.request.call import AUTHENTICATED, MASTERS, Call, Query, UserInfo
from sampan.apiserver.response.renderer import Renderer
from sampan.apiserver.response.responses import StreamedResponse, WatchResponse
from sampan.host.clock import VirtualClock
from sampan.machinery import errors
from sampan.machinery.pki.token_signer import TokenSigner
from sampan.storage.backend import Backend
from sampan.storage.memory import MemoryBackend

ADMIN = UserInfo("admin", "", (MASTERS, AUTHENTICATED))
JSON, MERGE = "application/json", "application/merge-patch+json"
NAMESPACE = "/api/v1/namespaces/ns"


class _NoAuthenticator:
    async def authenticate(self, call: Call) -> UserInfo:
        raise AssertionError("requests have an authenticated user already")


class ApiServer:
    """An API server without HTTP: `await server.send("POST", path, value)` returns the status code and the decoded
    response; `warnings` has the warnings of the last response."""

    def __init__(
        self, registry: Registry, *, ranges: ServiceRanges | None = None, signer: TokenSigner | None = None
    ) -> None:
        self.registry, self.warnings = registry, list[str]()
        self.services = make_strategy_services(registry, ranges=ranges)
        self.pipeline = Pipeline(
            scheme=registry.scheme,
            authenticator=_NoAuthenticator(),
            authorizer=UnionAuthorizer(PrivilegedGroupAuthorizer()),
            endpoints=ApiEndpoints(
                registry=registry, admission=AdmissionChain([]), services=self.services, token_signer=signer
            ),
            handlers=ResourceHandlers(find_builtin=find_handlers),
            nonresource_handlers={},
        )
        self._renderer = Renderer(endpoints=self.pipeline.endpoints)

    async def send(self, method: str, target: str, value: Any = None, media: str = JSON) -> tuple[int, Any]:
        path, _, query = target.partition("?")
        headers = {"Content-Type": MERGE if method == "PATCH" else media}
        body = msgspec.json.encode(value) if value is not None else b""
        call = Call(method=method, path=path, query=Query(query), headers=headers, body=body, user=ADMIN)
        try:
            response = await self.pipeline.serve_as(call)
            assert not isinstance(response, WatchResponse | StreamedResponse)
            rendered = await self._renderer.render(response, call.output_format, call)
        except errors.ApiError as error:
            rendered = await self._renderer.error(error, call)
        self.warnings = call.warnings
        return rendered.code, msgspec.json.decode(b"".join(rendered.chunks))

    async def make(self, path: str, value: dict[str, Any]) -> Any:
        code, document = await self.send("POST", path, value)
        assert code == 201, document
        return document

    async def change(self, path: str, value: dict[str, Any]) -> Any:
        code, document = await self.send("PATCH", path, value)
        assert code == 200, document
        return document

    async def send_invalid(self, method: str, path: str, value: dict[str, Any]) -> list[str]:
        """Send a request that must be rejected as invalid, and return its validation errors."""
        code, document = await self.send(method, path, value)
        assert code == 422, document
        return [f"{cause['field']}: {cause['message']}" for cause in document["details"]["causes"]]


@asynccontextmanager
async def open_servers(
    count: int = 1,
    *,
    ranges: ServiceRanges | None = None,
    signer: TokenSigner | None = None,
    clock: VirtualClock | None = None,
    backend: Backend | None = None,
) -> AsyncIterator[list[ApiServer]]:
    clock, tasks = clock or VirtualClock(), list[asyncio.Task[None]]()
    async with AsyncExitStack() as stack:
        group = await stack.enter_async_context(asyncio.TaskGroup())
        store = backend
        if store is None:
            store = await stack.enter_async_context(MemoryBackend(clock=clock))

        def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            tasks.append(group.create_task(work))
            return tasks[-1]

        try:
            yield [
                ApiServer(
                    Registry(
                        scheme=builtin_scheme(),
                        backend=store,
                        clock=clock,
                        start_task=start,
                        make_behavior=make_behavior,
                    ),
                    ranges=ranges,
                    signer=signer,
                )
                for _ in range(count)
            ]
        finally:
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def open_server(**options: Any) -> AsyncIterator[ApiServer]:
    async with open_servers(1, **options) as servers:
        yield servers[0]


def run_with_server(work: Callable[[ApiServer], Awaitable[None]], **options: Any) -> None:
    """Run `work` with one server, which has these options of `open_servers`."""

    async def main() -> None:
        async with open_server(**options) as server:
            await work(server)

    asyncio.run(main())
