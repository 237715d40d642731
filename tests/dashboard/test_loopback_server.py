"""The dashboard of another cluster on a loopback port, and hostile servers behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from sampan.dashboard.loopback_server import loopback_dashboard
from sampan.host.clock import RealClock
from sampan.machinery.client import kubeconfig
from sampan.machinery.client.access import Access
from sampan.testing import Cluster
from tests.dashboard.page import Page

HOSTILE_HEADERS = {
    "Set-Cookie": "sampan-1=fixed; Path=/",
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Credentials": "true",
    "Location": "https://evil.example/",
    "Content-Security-Policy": "default-src *",
    "Clear-Site-Data": '"*"',
    "Refresh": "0;url=https://evil.example/",
    "Link": "<https://evil.example/x.js>; rel=preload",
    "Content-Type": "text/html",
}


@asynccontextmanager
async def dashboard_page(access: Access) -> AsyncIterator[Page]:
    async with (
        loopback_dashboard({"other": access}, port=0, clock=RealClock()) as url,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        server, _, code = url.partition("/ui/login#code=")
        page = Page(session, server, True)
        status, body = await page.log_in(code=code)
        assert status == 200, body
        yield page


@asynccontextmanager
async def hostile_server() -> AsyncIterator[Access]:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/selfsubjectreviews"):
            return web.json_response({"status": {"userInfo": {"username": "a", "groups": []}}}, status=201)
        if request.path == "/api/v1/redirect":
            return web.Response(status=302, headers=HOSTILE_HEADERS)
        return web.Response(body=b"<script>alert(1)</script>", headers=HOSTILE_HEADERS)

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield Access(server=f"http://127.0.0.1:{runner.addresses[0][1]}", token="secret")
    finally:
        await runner.cleanup()


async def test_another_cluster_is_shown_with_the_credentials_of_the_kubeconfig() -> None:
    async with (
        Cluster(components=("apiserver",)) as cluster,
        dashboard_page(kubeconfig.load(cluster.kubeconfig)) as page,
    ):
        status, session, _ = await page.request("GET", "api/session")
        assert (status, session["clusters"][0]["name"]) == (200, "other")
        path = "api/clusters/other/k8s/api/v1/namespaces/default/configmaps"
        created = {"metadata": {"name": "a"}, "data": {"k": "v"}}
        assert (await page.request("POST", path, json=created))[0] == 201
        status, body, _ = await page.request("GET", f"{path}/a")
        assert (status, body["data"]) == (200, {"k": "v"})
        async with page.stream("api/clusters/other/stream") as stream:
            list_path = "/api/v1/namespaces/default/configmaps"
            await stream.send(id=1, op="subscribe", path=list_path, table=True)
            snapshot = await stream.receive(type="snapshot")
            assert [row["key"] for row in snapshot["rows"]] == ["default/a"]
            assert (await page.request("DELETE", f"{path}/a"))[0] == 200
            assert await stream.change("default/a") is None
        status, overview, _ = await page.request("GET", "api/clusters/other/overview")
        assert (status, overview["nodes"]["count"]) == (200, 0)


@pytest.mark.parametrize("path", ["page", "redirect"])
async def test_a_hostile_server_cannot_act_on_the_origin_of_the_dashboard(path: str) -> None:
    async with hostile_server() as access, dashboard_page(access) as page:
        _, _, response = await page.request("GET", f"api/clusters/other/k8s/api/v1/{path}")
        assert response.content_type == "application/octet-stream"
        assert response.headers["Content-Disposition"] == "attachment"
        assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
        for name in HOSTILE_HEADERS.keys() - {"Content-Type", "Content-Security-Policy"}:
            assert name not in response.headers, name


async def test_dns_rebinding_to_the_loopback_address_is_rejected() -> None:
    async with hostile_server() as access, dashboard_page(access) as page:
        port = page.url.rpartition(":")[2]
        for host in (f"evil.example:{port}", f"192.0.2.1:{port}", "evil.example"):
            headers: dict[str, str | None] = {"Host": host, "Origin": f"http://{host}"}
            assert (await page.request("GET", "", headers=headers))[0] == 403
            assert (await page.request("GET", "api/session", headers=headers))[0] == 403


async def test_one_time_code_cannot_be_requested_over_the_loopback_port() -> None:
    async with hostile_server() as access, dashboard_page(access) as page:
        bare: dict[str, str | None] = {"Origin": None, "Sec-Fetch-Site": None, "X-Sampan-Csrf": None, "Cookie": None}
        async with aiohttp.ClientSession() as session:
            stranger = Page(session, page.url, True)
            assert (await stranger.request("POST", "api/code", headers=bare))[0] == 401
