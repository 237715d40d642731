"""A page of the dashboard without a browser: it sends what the page's scripts would send."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from sampan.machinery.client import Client
from sampan.machinery.client.transport import Request
from sampan.testing import Cluster

TIMEOUT_S = 60


class Page:
    def __init__(self, session: aiohttp.ClientSession, url: str, tls: ssl.SSLContext | bool) -> None:
        self.http, self.url, self.tls = session, url, tls
        self.csrf = ""

    @property
    def http_url(self) -> URL:
        return URL(self.url)

    @property
    def headers(self) -> dict[str, str]:
        return {"Origin": self.url, "Sec-Fetch-Site": "same-origin", "X-Sampan-Csrf": self.csrf}

    async def request(
        self, method: str, path: str, *, headers: dict[str, str | None] | None = None, **options: Any
    ) -> tuple[int, Any, aiohttp.ClientResponse]:
        """Send a request below /ui/ and return the status, the body (decoded if it is JSON) and the response."""
        merged = {**self.headers, **(headers or {})}
        sent = {name: value for name, value in merged.items() if value is not None}
        async with self.http.request(
            method, f"{self.url}/ui/{path}", headers=sent, ssl=self.tls, allow_redirects=False, **options
        ) as response:
            is_json = response.content_type == "application/json"
            body = await response.json() if is_json else (await response.read()).decode("utf-8", "replace")
            return response.status, body, response

    async def log_in(self, **credentials: str) -> tuple[int, Any]:
        status, body, _ = await self.request("POST", "api/login", json=credentials)
        if status == 200:
            self.csrf = body["csrf"]
        return status, body

    async def k8s(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        status, body, _ = await self.request(method, f"api/clusters/sampan/k8s{path}", **options)
        return status, body

    @asynccontextmanager
    async def stream(
        self,
        path: str = "api/clusters/sampan/stream",
        *,
        protocol: str = "v1.stream.sampan",
        csrf: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> AsyncIterator[Stream]:
        token = self.csrf if csrf is None else csrf
        async with self.http.ws_connect(
            f"{self.url}/ui/{path}",
            protocols=(protocol, f"sampan.csrf.{token}"),
            headers={"Origin": self.url, **(headers or {})},
            ssl=self.tls,
            max_msg_size=0,
        ) as socket:
            connection = socket._response.connection
            transport = connection.transport if connection is not None else None
            try:
                yield Stream(socket)
            finally:
                await socket.close()
                if transport is not None:
                    transport.abort()


class Stream:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    def pause(self) -> None:
        """Stop reading, as a page that hangs."""
        self._transport.pause_reading()

    def abort(self) -> None:
        """Close the connection at once: a handshake of a stream that is paused would not end."""
        self._transport.abort()

    @property
    def _transport(self) -> asyncio.Transport:
        connection = self.socket._response.connection
        assert connection is not None
        assert isinstance(connection.transport, asyncio.Transport)
        return connection.transport

    async def send(self, **message: Any) -> None:
        await self.socket.send_json(message)

    async def receive(self, *, type: str = "", id: int | None = None) -> Any:
        """Return the next message of this type and subscription."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                message = await self.socket.receive_json()
                assert not type or message["type"] in ("snapshot", "changes"), message
                if (not type or message["type"] == type) and (id is None or message["id"] == id):
                    return message

    async def change(self, key: str) -> Any:
        """Return the next change of an object: its row, or None if it was deleted."""
        while True:
            message = await self.receive(type="changes")
            for operation, row in message["changes"]:
                if operation == "DELETE" and row == key:
                    return None
                if operation == "PUT" and row.get("key", row.get("metadata", {}).get("name")) == key:
                    return row


@asynccontextmanager
async def open_page(cluster: Cluster, source_address: str | None = None) -> AsyncIterator[Page]:
    tls = ssl.create_default_context(cafile=str(cluster.ca))
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of an IP address
    connector = aiohttp.TCPConnector(local_addr=(source_address, 0) if source_address else None)
    async with aiohttp.ClientSession(cookie_jar=jar, connector=connector) as session:
        try:
            yield Page(session, cluster.url, tls)
        finally:
            abort_connections(session)
            await asyncio.sleep(0)


def abort_connections(session: aiohttp.ClientSession) -> None:
    """Close idle connections without the TLS shutdown, which would outlast the event loop of a test."""
    assert session.connector is not None
    for idle in session.connector._conns.values():
        for connection in idle:
            if connection[0].transport is not None:
                connection[0].transport.abort()


@asynccontextmanager
async def admin_page(cluster: Cluster) -> AsyncIterator[Page]:
    async with open_page(cluster) as page:
        status, body = await page.log_in(kubeconfig=inline_kubeconfig(cluster))
        assert status == 200, body
        yield page


def inline_kubeconfig(cluster: Cluster) -> str:
    """Return the kubeconfig of the administrator with an embedded certificate."""
    certificate, key = (base64.b64encode(path.read_bytes()).decode() for path in cluster.client_certificate)
    return f"""
apiVersion: v1
kind: Config
current-context: a
contexts: [{{name: a, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "https://attacker.example"}}}}]
users: [{{name: u, user: {{client-certificate-data: {certificate}, client-key-data: {key}}}}}]
"""


async def token_of(page: Page, account: str, namespace: str = "default") -> str:
    """Create a service account and return a token for it."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await page.k8s("POST", accounts, json={"metadata": {"name": account}})
    spec = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    status, body = await page.k8s("POST", f"{accounts}/{account}/token", json=spec)
    assert status == 201, body
    return str(body["status"]["token"])


async def account_token(client: Client, account: str) -> str:
    """Create a service account and return a token for it, without a page."""
    path = "/api/v1/namespaces/default/serviceaccounts"
    headers = {"Content-Type": "application/json"}
    body = msgspec.json.encode({"metadata": {"name": account}})
    await client.send(Request(method="POST", path=path, headers=headers, body=body))
    response = await client.send(Request(method="POST", path=f"{path}/{account}/token", headers=headers, body=b"{}"))
    return str(msgspec.json.decode(response.body())["status"]["token"])
