"""Private data of users: no caching, no redirects to other sites, and no credentials in responses to the page."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest

from sampan.dashboard.loopback_server import loopback_dashboard
from sampan.host.clock import RealClock
from sampan.machinery.client import kubeconfig
from sampan.machinery.client.access import Access
from sampan.testing import Cluster
from tests.dashboard.page import Page, account_token, admin_page, inline_kubeconfig, open_page

MAPS = "/api/v1/namespaces/default/configmaps"
VIEWS = ("overview", "recorder", "audit", "queues", "trace?namespace=a&name=b", "why?namespace=a&name=b", "none")


# -- caches and redirects --------------------------------------------------------------------------------------------


async def test_responses_with_private_data_are_not_cached(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:
        paths = [f"api/clusters/sampan/{view}" for view in VIEWS]
        for path in ("api/session", f"api/clusters/sampan/k8s{MAPS}", "api/clusters/sampan/k8s/none", "api/no", *paths):
            _, _, response = await page.request("GET", path)
            assert response.headers["Cache-Control"] == "no-store", path
        _, _, response = await page.request("POST", "api/login", json={"kubeconfig": inline_kubeconfig(cluster)})
        assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    ["/ui", "/ui?next=https://evil.example/", "/ui//evil.example", "/ui/%2f%2fevil.example/..", "/ui/\\evil.example"],
)
async def test_no_path_redirects_to_another_site(cluster: Cluster, path: str) -> None:
    async with (
        open_page(cluster) as page,
        page.http.get(f"{page.url}{path}", ssl=page.tls, allow_redirects=False) as response,
    ):
        assert response.headers.get("Location", "/ui/") == "/ui/"
        assert "Refresh" not in response.headers


# -- another Kubernetes ----------------------------------------------------------------------------------------------


class RecordedPage(Page):
    """A page that keeps all responses of the server."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        super().__init__(session, url, True)
        self.received: list[str] = []

    async def fetch(self, method: str, path: str, **options: Any) -> int:
        status, body, response = await self.request(method, path, **options)
        self.received += [str(response.headers), body if isinstance(body, str) else msgspec.json.encode(body).decode()]
        return status


@asynccontextmanager
async def recorded_page(access: Access) -> AsyncIterator[RecordedPage]:
    async with (
        loopback_dashboard({"other": access}, port=0, clock=RealClock()) as url,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        server, _, code = url.partition("/ui/login#code=")
        page = RecordedPage(session, server)
        status, body = await page.log_in(code=code)
        assert status == 200, body
        page.received.append(msgspec.json.encode(body).decode())
        yield page


async def credentials(cluster: Cluster, form: str) -> tuple[Access, list[str]]:
    """Return an access by the administrator's certificate or by a token, and texts that must not reach the page."""
    access = kubeconfig.load(cluster.kubeconfig)
    if form == "certificate":
        key = access.client_key_pem.decode()
        body = "".join(key.splitlines()[1:-1])
        return access, [body[:60], base64.b64encode(access.client_key_pem).decode()[:60]]
    token = await account_token(cluster.client, "through-a-kubeconfig")
    return Access(server=access.server, ca_pem=access.ca_pem, token=token), [token, token.rpartition(".")[2]]


@pytest.mark.parametrize("form", ["certificate", "token"])
async def test_the_credentials_of_a_kubeconfig_never_reach_the_page(form: str) -> None:
    async with Cluster(components=("apiserver",)) as cluster:
        access, secrets = await credentials(cluster, form)
        async with recorded_page(access) as page:
            for path in ("api/session", "api/clusters/other/overview", "api/clusters/other/k8s/api", "", "login"):
                await page.fetch("GET", path)
            for path in (MAPS, "/version", "/none", "/api/v1/namespaces/default/pods/x/log", "/debug/flightrecorder"):
                await page.fetch("GET", f"api/clusters/other/k8s{path}")
            await page.fetch("POST", f"api/clusters/other/k8s{MAPS}", data=b"{", headers={"Content-Type": "x/y"})
            await page.fetch("POST", "api/clusters/other/diff", json={"manifest": "a: 1"})
            async with page.stream("api/clusters/other/stream") as stream:
                await stream.send(id=1, op="subscribe", kind="overview")
                await stream.send(id=2, op="subscribe", path="/api/v1/secrets", table=True)
                page.received += [str(await stream.receive()), str(await stream.receive())]
    assert len(page.received) > 20
    for secret in secrets:
        assert not [text for text in page.received if secret in text]


async def test_unreachable_server_is_reported_without_the_credentials() -> None:
    access = Access(server="http://127.0.0.1:1", token="secret-of-the-kubeconfig")
    async with loopback_dashboard({"other": access}, port=0, clock=RealClock()) as url:
        server, _, code = url.partition("/ui/login#code=")
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            status, body = await Page(session, server, True).log_in(code=code)
            assert (status, body["reason"]) == (503, "ServiceUnavailable")
            assert "secret-of-the-kubeconfig" not in str(body)
