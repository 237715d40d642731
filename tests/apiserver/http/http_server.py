"""The HTTP server of the API server on free ports, with limits that tests can lower."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sampan.apiserver.authn.authenticator import CertificateAuthenticator, UnionAuthenticator
from sampan.apiserver.authn.static_tokens import FileTokens
from sampan.apiserver.config.server_config import TlsFiles
from sampan.apiserver.http.connection_limits import HttpLimits
from sampan.apiserver.http.server import HttpServer, Listener
from sampan.apiserver.http.tls import tls_context
from sampan.apiserver.nonresource import nonresource_handlers
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.request.call import AUTHENTICATED, MASTERS, Call, UserInfo
from sampan.apiserver.response.responses import ApiResponse, RawResponse
from sampan.cluster.pki import CA, SERVER, Pki
from sampan.machinery.client import Client
from sampan.testing.keys import KEYS
from tests.api_server import ADMIN, Server, running_api_server, usual_authorizers
from tests.apiserver.http.wire import HEAD, Wire
from tests.eventually import eventually

MAPS = "/api/v1/namespaces/default/configmaps"
POST = (
    f"POST {MAPS} HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer admin-token\r\n".encode() + HEAD
)
GET = b"GET /healthz HTTP/1.1\r\n" + HEAD
WITH_AND_WITHOUT_TLS = pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
USERS = {
    "admin-token": UserInfo("admin", "1", (MASTERS, AUTHENTICATED)),
    "joe-token": UserInfo("joe", "2", (AUTHENTICATED,)),
}


@dataclass
class WaitHandler:
    """The handler of /wait, which responds when the test sets `go`."""

    arrived: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, call: Call) -> ApiResponse:
        self.arrived.release()
        await self.go.wait()
        return RawResponse(b"waited")


@dataclass
class Site:
    """A running HTTP server with its ports, keys and API server."""

    server: Server
    http: HttpServer
    port: int
    tls_port: int
    wait_handler: WaitHandler
    pki: Pki

    @property
    def client(self) -> Client:
        return self.server.client()

    def wire(self, *, tls: bool = False, context: ssl.SSLContext | None = None, has_small_buffer: bool = False) -> Wire:
        """Return a connection over TLS, or over plain HTTP, where every user is the administrator."""
        if tls or context is not None:
            return Wire(self.tls_port, context or self.client_tls(), has_small_buffer=has_small_buffer)
        return Wire(self.port, has_small_buffer=has_small_buffer)

    def client_tls(self, certificate: str = "") -> ssl.SSLContext:
        """Return a TLS context that trusts the server, with this client certificate of the cluster, if any."""
        context = ssl.create_default_context(cafile=str(self.pki.certificate(CA)))
        if certificate:
            context.load_cert_chain(self.pki.certificate(certificate), self.pki.key(certificate))
        return context

    async def create_config_map(self, value: Mapping[str, Any]) -> None:
        """Create a config map in the namespace default."""
        async with self.wire() as wire:
            response = await wire.request("POST", "/api/v1/namespaces/default/configmaps", value)
            assert response.code == 201, response

    @property
    def requests(self) -> float:
        """The number of requests in flight, without watches."""
        metrics = self.http._metrics
        return metrics.mutating.value + metrics.read_only.value

    def count_watchers(self, plural: str = "configmaps") -> int:
        resource = self.server.scheme.resource("", "v1", plural)
        assert resource is not None
        return self.server.registry.open_store(resource).cacher.stats().watchers


@asynccontextmanager
async def open_site(
    directory: Path,
    limits: HttpLimits | None = None,
    now: Callable[[], float] = time.time,
    *,
    compresses_watch_lists: bool = False,
) -> AsyncIterator[Site]:
    """Run a server; `now` is the clock by which client certificates expire."""
    pki, wait_handler = KEYS.write(directory / "pki"), WaitHandler()
    files = TlsFiles(certificate=pki.certificate(SERVER), key=pki.key(SERVER), client_ca=pki.certificate(CA))
    async with asyncio.TaskGroup() as group, running_api_server() as server:
        pipeline = Pipeline(
            scheme=server.scheme,
            authenticator=UnionAuthenticator([CertificateAuthenticator(now=now)], tokens=[FileTokens(USERS)]),
            authorizer=usual_authorizers(server.registry),
            endpoints=server.pipeline.endpoints,
            handlers=server.pipeline.handlers,
            nonresource_handlers={**nonresource_handlers(server.registry), "wait": wait_handler},
        )
        http = HttpServer(
            pipeline=pipeline,
            start_task=group.create_task,
            limits=limits,
            compresses_watch_lists=compresses_watch_lists,
        )
        listeners = [Listener("127.0.0.1", 0, user=ADMIN), Listener("127.0.0.1", 0, tls_context(files))]
        port, tls_port = await http.listen(listeners)
        try:
            yield Site(server, http, port, tls_port, wait_handler, pki)
        finally:
            wait_handler.go.set()
            await http.close(0.2)


def run_on_site(directory: Path, test: Callable[[Site], Awaitable[None]], **limits: float) -> None:
    """Run `test` against a server with these limits."""

    async def run() -> None:
        async with open_site(directory, HttpLimits(**limits)) as site:  # type: ignore[arg-type]
            await test(site)

    asyncio.run(run())


class SharedSite:
    """A server for several tests, whose event loop runs only while a test runs."""

    def __init__(self, runner: asyncio.Runner, site: Site) -> None:
        self._runner, self._site = runner, site

    def run(self, test: Callable[[Site], Awaitable[None]]) -> None:
        """Run `test`, and wait until the server has closed its connections."""

        async def run() -> None:
            await test(self._site)
            await eventually(lambda: self._site.http.connections == 0)

        self._runner.run(run())


@contextmanager
def shared_site(directory: Path, limits: HttpLimits | None = None) -> Iterator[SharedSite]:
    with asyncio.Runner() as runner:
        started: asyncio.Future[Site] = runner.get_loop().create_future()
        stopping = asyncio.Event()

        async def serve() -> None:
            async with open_site(directory, limits) as site:
                started.set_result(site)
                await stopping.wait()

        async def start() -> Site:
            futures: list[asyncio.Future[Any]] = [serve_task, started]
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            if not started.done():
                await serve_task  # raises the error
            return started.result()

        async def stop() -> None:
            stopping.set()
            await serve_task

        serve_task = runner.get_loop().create_task(serve())
        yield SharedSite(runner, runner.run(start()))
        runner.run(stop())
