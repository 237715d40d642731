"""What an open page of the dashboard costs the server, beside 1,000 hollow nodes and 10,000 pods, and how the page
behaves in Chromium.

A page without a browser subscribes to the overview and to the table of all pods, as the real one does. The figures are
differences: the CPU time of the server with the page, less that without it, over the same time. Then Chromium opens the
same cluster, if it and the built page are there.
`python -m benchmarks.dashboard_bench NODES PODS` measures a cluster of another size.
"""

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from benchmarks import Row, page_browser
from benchmarks.pods import WRITERS, create, until
from benchmarks.processes import cpu_s, resident_mb
from benchmarks.running_cluster import running_cluster
from benchmarks.sample_pods import hollow_pod

NODES, PODS = 1000, 10_000
WATCHED_S = 30
CHANGES_PER_S = 200
PAGES = 20
TOKEN = "benchmark-token"


def rows(nodes: int = NODES, pods: int = PODS) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory:
        tokens = Path(directory) / "tokens.csv"
        tokens.write_text(f'{TOKEN},admin,1,"system:masters"\n')
        flags = ("--runtime", "hollow", "--nodes", str(nodes), "--no-hollow-events", "--token-auth-file", str(tokens))
        with running_cluster(*flags) as cluster:
            measurement = _Measurement(cluster.pid, cluster.url, cluster.secure_url)
            yield from asyncio.run(measurement.run(nodes, pods))


class _Measurement:
    def __init__(self, pid: int, api: str, dashboard: str) -> None:
        self._pid, self._api, self._dashboard = pid, api, dashboard
        self.messages = self.changes = self.received_bytes = 0

    async def run(self, nodes: int, pods: int) -> list[Row]:
        note = f"{nodes} nodes, {pods} pods"
        async with (
            aiohttp.ClientSession(self._api, connector=aiohttp.TCPConnector(limit=WRITERS + 2)) as api,
            aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser,
        ):
            await until(api, "/api/v1/nodes", nodes)
            await create(api, (hollow_pod(number, nodes) for number in range(pods)))
            await until(api, "/api/v1/pods?fieldSelector=status.phase=Running", pods)
            await asyncio.sleep(20)
            before_idle = await self._core_share(lambda: asyncio.sleep(WATCHED_S))
            before_busy = await self._core_share(lambda: _change(api, pods))
            before_mb = resident_mb(self._pid)
            csrf = await _log_in(browser, self._dashboard)
            began = time.monotonic()
            async with self._stream(browser, csrf) as socket:
                await socket.send_json({"id": 1, "op": "subscribe", "kind": "overview"})
                await socket.send_json({"id": 2, "op": "subscribe", "path": "/api/v1/pods", "table": True})
                first_rows_s = await self._until_rows(socket, 1) - began
                all_rows_s = await self._until_rows(socket, pods) - began
                reader = asyncio.create_task(self._read(socket))
                await asyncio.sleep(5)
                idle = await self._core_share(lambda: asyncio.sleep(WATCHED_S))
                page_mb = resident_mb(self._pid) - before_mb
                self.messages = self.changes = self.received_bytes = 0
                began = time.monotonic()
                busy = await self._core_share(lambda: _change(api, pods))
                busy_s = time.monotonic() - began
                reader.cancel()
            many_mb = await self._memory_of_many(api, pods)
            in_browser = await self._browser_rows(api, pods, note) if page_browser.is_available() else []
        return [
            *in_browser,
            Row("first rows of the table of pods", first_rows_s * 1000, "ms", note=note),
            Row("all rows of the table of pods", all_rows_s * 1000, "ms", note=note),
            Row("one idle page", max(0.0, idle - before_idle), "% of a core", goal=3, note=note),
            Row(f"one page, {CHANGES_PER_S} changes/s", max(0.0, busy - before_busy), "% of a core", note=note),
            Row("messages to the page", self.messages / busy_s, "/s", note=f"{self.changes / busy_s:.0f} rows/s"),
            Row("memory of one page", max(0.0, page_mb), "MB", note=note),
            Row(f"memory of {PAGES} pages", many_mb, "MB", note=f"one of them does not read; {note}"),
        ]

    async def _memory_of_many(self, api: aiohttp.ClientSession, pods: int) -> float:
        """Return the memory of the server that many pages need while pods change. The first page reads nothing."""
        before_mb = resident_mb(self._pid)
        async with contextlib.AsyncExitStack() as stack:
            readers = []
            for number in range(PAGES):
                jar = aiohttp.CookieJar(unsafe=True)
                browser = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=jar))
                csrf = await _log_in(browser, self._dashboard)
                socket = await stack.enter_async_context(self._stream(browser, csrf))
                await socket.send_json({"id": 1, "op": "subscribe", "kind": "overview"})
                await socket.send_json({"id": 2, "op": "subscribe", "path": "/api/v1/pods", "table": True})
                if number:
                    self.changes = 0
                    await self._until_rows(socket, pods)
                    readers.append(asyncio.create_task(self._read(socket)))
            await _change(api, pods)
            many_mb = resident_mb(self._pid) - before_mb
            for reader in readers:
                reader.cancel()
        return max(0.0, many_mb)

    def _stream(self, browser: aiohttp.ClientSession, csrf: str) -> Any:
        return browser.ws_connect(
            f"{self._dashboard}/ui/api/clusters/sampan/stream",
            protocols=(f"sampan.csrf.{csrf}",),
            headers={"Origin": self._dashboard},
            ssl=False,
            max_msg_size=0,
        )

    async def _browser_rows(self, api: aiohttp.ClientSession, pods: int, note: str) -> list[Row]:
        """Measure in Chromium: an idle page at first, then lists while pods change."""
        rows: list[Row] = []
        with page_browser.PageInBrowser(self._dashboard, TOKEN) as browser:
            rows += await asyncio.to_thread(lambda: list(browser.paints(note)))
            for name, is_scrolled in ((f"{CHANGES_PER_S} changes/s", False), ("the same while it scrolls", True)):
                page = await asyncio.to_thread(browser.open_list, pods)
                changes = asyncio.create_task(_change(api, pods))
                await asyncio.sleep(2)
                report = await asyncio.to_thread(browser.frames, page, is_scrolled=is_scrolled)
                rows += page_browser.frame_rows(report, name, note)
                await changes
                await asyncio.to_thread(page.close)
        return rows

    async def _core_share(self, work: Callable[[], Awaitable[Any]]) -> float:
        """Return the share of a core that the server uses while something happens, in percent."""
        cpu, began = cpu_s(self._pid), time.monotonic()
        await work()
        return (cpu_s(self._pid) - cpu) / (time.monotonic() - began) * 100

    async def _until_rows(self, socket: aiohttp.ClientWebSocketResponse, count: int) -> float:
        while self.changes < count:
            self._take(await socket.receive())
        return time.monotonic()

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            self._take(message)

    def _take(self, message: aiohttp.WSMessage) -> None:
        value = msgspec.json.decode(message.data)
        self.messages += 1
        self.received_bytes += len(message.data)
        self.changes += len(value.get("rows") or ()) + len(value.get("changes") or ())


async def _log_in(browser: aiohttp.ClientSession, dashboard: str) -> str:
    headers = {"Origin": dashboard}
    async with browser.post(f"{dashboard}/ui/api/login", json={"token": TOKEN}, headers=headers, ssl=False) as response:
        response.raise_for_status()
        return str((await response.json())["csrf"])


async def _change(api: aiohttp.ClientSession, pods: int) -> None:
    """Change pods at a steady rate, each a different one."""
    began, number = time.monotonic(), 0
    headers = {"Content-Type": "application/merge-patch+json"}

    async def patch(index: int) -> None:
        body = msgspec.json.encode({"metadata": {"annotations": {"changed": str(time.monotonic())}}})
        async with api.patch(f"/api/v1/namespaces/default/pods/pod-{index}", data=body, headers=headers) as response:
            await response.read()

    async with asyncio.TaskGroup() as group:
        while (now := time.monotonic()) - began < WATCHED_S:
            due = int((now - began) * CHANGES_PER_S)
            for _ in range(due - number):
                group.create_task(patch(number * 7919 % pods))
                number += 1
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    for row in rows(*map(int, sys.argv[1:3])):
        print(f"{row.name:45} {row.value:10.3g} {row.unit} {row.note}", flush=True)
