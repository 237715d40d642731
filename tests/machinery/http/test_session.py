"""Redirects: a server cannot make a client send its credentials to another host."""

import ast
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from yarl import URL

from sampan.api.types.core_v1 import HTTPGetAction
from sampan.kubelet.agent.container_killer import _get
from sampan.kubelet.probes.prober import probe_http, url_of
from sampan.machinery import errors
from sampan.machinery.client.access import Access
from sampan.machinery.client.http import HttpTransport
from sampan.machinery.client.transport import Request
from sampan.machinery.http.session import HttpSession, TooManyRedirects, get_following

SECRET = {"Authorization": "Bearer secret", "X-Credential": "secret"}


@dataclass
class Site:
    """A server that redirects /to?URL to URL, /loop to itself, and serves all other paths."""

    port: int = 0
    requests: list[tuple[str, str, bool]] = field(default_factory=list)
    """Host, path, and whether the request has the credentials."""

    async def respond(self, request: web.BaseRequest) -> web.Response:
        self.requests.append((request.host.partition(":")[0], request.path, "X-Credential" in request.headers))
        if request.path == "/to":
            return web.Response(status=302, headers={"Location": request.query_string}, text="moved")
        if request.path == "/loop":
            return web.Response(status=302, headers={"Location": "/loop"})
        return web.Response(text="arrived")

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    site = Site()
    runner = web.ServerRunner(web.Server(site.respond))
    await runner.setup()
    try:
        place = web.TCPSite(runner, "127.0.0.1", 0)
        await place.start()
        site.port = int(runner.addresses[0][1])
        yield site
    finally:
        await runner.cleanup()


async def test_session_never_follows_redirects() -> None:
    async with site() as here, HttpSession() as session:
        for method in ("GET", "POST", "HEAD"):
            async with session.request(method, here.url(f"/to?{here.url('/x')}"), headers=SECRET) as response:
                assert response.status == 302
        assert {path for _, path, _ in here.requests} == {"/to"}
        with pytest.raises(TypeError):
            session.get(here.url("/x"), allow_redirects=True)


async def test_get_following_follows_redirects_to_the_same_host_only() -> None:
    async with site() as here, HttpSession() as session:
        same, other = here.url("/x"), here.url("/x", "localhost")
        async with get_following(session, URL(here.url(f"/to?{same}")), SECRET) as response:
            assert await response.text() == "arrived"
        async with get_following(session, URL(here.url(f"/to?{other}")), SECRET) as response:
            assert (response.status, await response.text()) == (302, "moved")
        assert ("localhost", "/x", True) not in here.requests
        with pytest.raises(TooManyRedirects, match="stopped after 10 redirects"):
            async with get_following(session, URL(here.url("/loop")), SECRET):
                pass


async def test_redirect_is_an_error_for_the_api_client() -> None:
    async with site() as here:
        access = Access(server=here.url("/to"), token="secret")
        async with HttpTransport(access) as transport:
            with pytest.raises(errors.ApiError) as failed:
                await transport.send(Request(method="GET", path="", query=[(here.url("/x"), "")]))
        assert failed.value.code == 302
        assert [path for _, path, _ in here.requests] == ["/to"]


async def test_hooks_and_probes_do_not_follow_redirects_to_another_host() -> None:
    async with site() as here:
        to = here.url(f"/to?{here.url('/x', 'localhost')}")
        await _get(to, SECRET)
        probe_result = await probe_http(to, SECRET, 30)
        assert (probe_result.is_success, probe_result.is_warning) == (True, True)
        assert [path for _, path, _ in here.requests] == ["/to", "/to"]
        looping = await probe_http(here.url("/loop"), SECRET, 30)
        assert (looping.is_success, looping.text.endswith("stopped after 10 redirects")) == (False, True)
        action = HTTPGetAction(port=here.port, path="/x")
        assert (await probe_http(url_of(action, "127.0.0.1", here.port), {}, 30)).is_success


def test_no_other_module_creates_a_client_session(repository: Path) -> None:
    """Other sessions would follow redirects. The image puller has its own rules for redirects."""
    exempt = {Path("machinery/http/session.py"), Path("runtimes/images/pull.py")}
    source = repository / "src/sampan"
    creators = {
        path.relative_to(source)
        for path in source.rglob("*.py")
        if "aiohttp" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("ClientSession")
    }
    assert creators - exempt == set()
