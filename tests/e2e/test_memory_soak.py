"""Memory of a server under continuous load: `pytest -m soak tests/e2e/test_memory_soak.py`.

SOAK_S shortens the run of writes (900 seconds). The limits are for the server process alone, measured from outside.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Sampan, wait_until_ready
from tests.eventually import eventually
from tests.ports import free_port

pytestmark = pytest.mark.soak

SOAK_S = float(os.environ.get("SOAK_S", "900"))
WRITERS = 8
MAPS = "/api/v1/namespaces/default/configmaps"
HEAD = "Host: x\r\nAuthorization: Bearer token-of-admin\r\nContent-Type: application/json\r\n"


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        content = json.dumps(body).encode() if body is not None else b""
        head = f"{method} {path} HTTP/1.1\r\n{HEAD}Content-Length: {len(content)}\r\n\r\n"
        self.writer.write(head.encode() + content)
        response = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        if b"content-length:" not in response:
            return int(response[9:12]), b"".join([chunk async for chunk in self.chunks()])
        size = int(response.split(b"content-length:")[1].split(b"\r\n")[0])
        return int(response[9:12]), await self.reader.readexactly(size)

    async def watch(self, path: str) -> None:
        self.writer.write(f"GET {path}?watch=1 HTTP/1.1\r\n{HEAD}\r\n".encode())
        await self.reader.readuntil(b"\r\n\r\n")

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.readline(), 16):
            yield await self.reader.readexactly(size)
            await self.reader.readline()
        await self.reader.readline()


class Server:
    def __init__(self, port: int, pid: int) -> None:
        self._port, self._pid = port, pid
        self._tls = ssl._create_unverified_context()
        self._open: list[asyncio.StreamWriter] = []
        self.peak = 0.0

    async def connect(self) -> Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls, limit=1 << 22)
        self._open.append(writer)
        return Connection(reader, writer)

    async def disconnect(self) -> None:
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in self._open), return_exceptions=True)

    @property
    def megabytes(self) -> float:
        return int(Path(f"/proc/{self._pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    async def observe(self) -> None:
        while True:
            self.peak = max(self.peak, self.megabytes)
            await asyncio.sleep(0.1)


@asynccontextmanager
async def _server(sampan: Sampan, directory: Path) -> AsyncIterator[Server]:
    tokens, port = directory / "tokens", free_port()
    tokens.write_text("token-of-admin,admin,1,system:masters\n")
    tokens.chmod(0o600)
    words = ["up", "--components", "apiserver", "--nodes", "0", "--token-auth-file", str(tokens)]
    with sampan.running_command(*words, "--secure-port", str(port)) as process:
        await asyncio.to_thread(wait_until_ready, f"https://127.0.0.1:{port}")
        server = Server(port, process.pid)
        observer = asyncio.create_task(server.observe())
        try:
            yield server
        finally:
            observer.cancel()
            await server.disconnect()


@pytest.fixture
def sampan(tmp_path: Path) -> Sampan:
    return Sampan(tmp_path)


async def test_memory_stays_bounded_with_200_watch_clients_that_never_read(sampan: Sampan, tmp_path: Path) -> None:
    """200 TLS watches whose clients never read, 2,000 writes of 10 KB, and one watch whose client reads."""

    async with _server(sampan, tmp_path) as server:
        deaf = [await server.connect() for _ in range(200)]
        for connection in deaf:
            await connection.watch(MAPS)
            connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        reader = await server.connect()
        await reader.watch(MAPS)
        names: list[str] = []

        async def read() -> None:
            async for chunk in reader.chunks():
                names.append(json.loads(chunk)["object"]["metadata"]["name"])
                if len(names) == 2000:
                    return

        took: list[float] = []

        async def write(first: int) -> None:
            connection = await server.connect()
            for number in range(first, 2000, WRITERS):
                began = time.perf_counter()
                body = {"metadata": {"name": f"m{number:04}"}, "data": {"x": "y" * 10_000}}
                assert (await connection.send("POST", MAPS, body))[0] == 201
                took.append(time.perf_counter() - began)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read())
            for first in range(WRITERS):
                tasks.create_task(write(first))
        scraping = await server.connect()

        async def are_terminated() -> bool:
            _, metrics = await scraping.send("GET", "/metrics")
            return b'terminated_watchers_total{group="",resource="configmaps"} 200' in metrics

        await eventually(are_terminated, timeout_s=90, poll_s=0.5)
        for connection in deaf:
            connection.writer.transport.abort()
        await _wait_until_below(server, 120)
        took.sort()
        print(f"peak {server.peak:.0f} MB, then {server.megabytes:.0f} MB, write p99 {took[1980] * 1e3:.0f} ms")
        assert len(set(names)) == 2000
        assert server.peak < 300


async def _wait_until_below(server: Server, megabytes: float) -> None:
    """Wait until the memory of the server is below this value."""
    with suppress(TimeoutError):
        await eventually(lambda: server.megabytes <= megabytes, timeout_s=120, poll_s=0.5)
    assert server.megabytes <= megabytes, f"peak {server.peak:.0f} MB, then {server.megabytes:.0f} MB"


RESOURCES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("configmaps", "/api/v1/namespaces/default/configmaps", {"data": {"x": "y" * 1500}}),
    ("secrets", "/api/v1/namespaces/default/secrets", {"stringData": {"x": "y" * 1000}}),
    ("leases", "/apis/coordination.k8s.io/v1/namespaces/default/leases", {"spec": {"holderIdentity": "me"}}),
    ("accounts", "/api/v1/namespaces/default/serviceaccounts", {}),
    ("services", "/api/v1/namespaces/default/services", {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}),
)


@pytest.mark.timeout(SOAK_S + 600)
async def test_memory_stays_bounded_under_continuous_writes(sampan: Sampan, tmp_path: Path) -> None:
    """The load is about 600 writes per second to 700 objects of five kinds."""

    async with _server(sampan, tmp_path) as server:
        count, until = 0, time.monotonic() + SOAK_S

        async def write(first: int) -> None:
            nonlocal count
            connection = await server.connect()
            mine = [(number, RESOURCES[number % len(RESOURCES)]) for number in range(first, 700, WRITERS)]
            for number, (_, path, body) in mine:
                obj = {"metadata": {"name": f"o{number}"}, **body}
                assert (await connection.send("POST", path, obj))[0] == 201
            connection.writer.close()
            patching = await server.connect()
            while time.monotonic() < until:
                for number, (_, path, _) in mine:
                    patch = {"metadata": {"annotations": {"count": str(count)}}}
                    code, _ = await _patch(patching, f"{path}/o{number}", patch)
                    assert code == 200
                    count += 1

        async with asyncio.TaskGroup() as tasks:
            for first in range(WRITERS):
                tasks.create_task(write(first))
        print(f"{count / SOAK_S:.0f} writes a second, peak {server.peak:.0f} MB, then {server.megabytes:.0f} MB")
        assert server.peak < 400


async def _patch(connection: Connection, path: str, body: Any) -> tuple[int, bytes]:
    content = json.dumps(body).encode()
    head = HEAD.replace("application/json", "application/merge-patch+json")
    connection.writer.write(f"PATCH {path} HTTP/1.1\r\n{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    response = (await connection.reader.readuntil(b"\r\n\r\n")).lower()
    size = int(response.split(b"content-length:")[1].split(b"\r\n")[0])
    return int(response[9:12]), await connection.reader.readexactly(size)
