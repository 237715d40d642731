"""Where a node's own pods come from: a folder that is read again, a URL that is fetched again."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.pod_sources import StaticPodSources
from sampan.machinery.clock import VirtualClock
from tests.eventually import eventually

POD = "apiVersion: v1\nkind: Pod\nmetadata: {{name: {}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"


class RecordedChanges:
    """What was last told of each source."""

    def __init__(self) -> None:
        self.pods: dict[str, list[str]] = {}
        self.times = 0

    def update(self, source: str, pods: Any) -> None:
        listed_pods: list[Pod] = list(pods)
        self.pods[source] = sorted(pod.metadata.name.removesuffix("-n") for pod in listed_pods)
        self.times += 1

    async def after(self, clock: VirtualClock, seconds: float, times: int) -> dict[str, list[str]]:
        """Once the clock has gone on, and so often something was told: files and sockets take real time."""
        await eventually(lambda: self.times >= times, step=lambda: clock.advance(seconds))
        return self.pods


@asynccontextmanager
async def sources(**config: Any) -> AsyncIterator[tuple[StaticPodSources, RecordedChanges, VirtualClock]]:
    clock, changes = VirtualClock(), RecordedChanges()
    settings = AgentConfig(name="n", root=Path("/"), logs=Path("/"), **config)
    sources_ = StaticPodSources(config=settings, clock=clock, update=changes.update)
    await sources_.start()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(sources_.run())
        yield sources_, changes, clock
        task.cancel()


def test_a_directory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        (tmp_path / "a.yaml").write_text(POD.format("a"))
        (tmp_path / ".hidden").write_text(POD.format("hidden"))
        async with sources(static_pod_path=tmp_path) as (static_pods, changes, clock):
            assert changes.pods == {"file": ["a"]}
            assert static_pods.are_known
            (tmp_path / "b.yaml").write_text(POD.format("b"))
            assert await changes.after(clock, 1, 2) == {"file": ["a", "b"]}
            (tmp_path / "b.yaml").write_text(POD.format("other"))
            os.utime(tmp_path / "b.yaml", (1, 1))
            assert await changes.after(clock, 1, 3) == {"file": ["a", "other"]}
            (tmp_path / "bad.yaml").write_text("kind: Service")
            assert await changes.after(clock, 1, 4) == {"file": ["a", "other"]}
            assert f"{tmp_path / 'bad.yaml'}: want a Pod or a PodList of v1" in caplog.text
            (tmp_path / "a.yaml").unlink()
            assert await changes.after(clock, 1, 5) == {"file": ["other"]}
            await clock.advance(60)
            assert changes.times == 5  # nothing has changed since

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())


def test_files_that_are_anything_but_pods(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        (tmp_path / "a.yaml").write_text(POD.format("a"))
        (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
        with (tmp_path / "large.yaml").open("wb") as file:
            file.truncate(11 << 20)
        (tmp_path / "list.yaml").write_text("apiVersion: v1\nkind: PodList\nitems: [text]")
        async with sources(static_pod_path=tmp_path) as (_, changes, clock):
            assert changes.pods == {"file": ["a"]}
            (tmp_path / "b.yaml").write_text(POD.format("b"))
            assert await changes.after(clock, 1, 2) == {"file": ["a", "b"]}

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert f"{tmp_path / 'large.yaml'}: more than 10485760 bytes" in caplog.text


async def test_a_single_file(tmp_path: Path) -> None:
    place = tmp_path / "pods.yaml"
    async with sources(static_pod_path=place) as (_, changes, clock):
        assert changes.pods == {"file": []}
        place.write_text(POD.format("a") + "---\n" + POD.format("b"))
        assert await changes.after(clock, 1, 2) == {"file": ["a", "b"]}


class Site:
    """What stands at the URL, for those who show the header."""

    def __init__(self) -> None:
        self.status, self.text, self.request_count = 200, POD.format("a"), 0

    async def respond(self, request: web.BaseRequest) -> web.Response:
        self.request_count += 1
        if request.headers.get("X-Key") != "secret":
            return web.Response(status=403)
        return web.Response(status=self.status, text=self.text)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        try:
            yield await self.begin()
        finally:
            await self.end()

    async def begin(self) -> str:
        """The URL."""
        self._factory = web.Server(self.respond)
        self._server = await asyncio.get_running_loop().create_server(self._factory, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/pods"

    async def end(self) -> None:
        self._server.close()
        await self._factory.shutdown(0.01)

    async def asked_again(self, clock: VirtualClock) -> None:
        before = self.request_count
        # The first of these two requests may have been under way.
        await eventually(lambda: self.request_count >= before + 2, step=lambda: clock.advance(20))


def test_a_url(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        site = Site()
        async with (
            site.served() as url,
            sources(static_url=url, static_url_headers={"X-Key": "secret"}) as (static_pods, changes, clock),
        ):
            assert not static_pods.are_known
            assert await changes.after(clock, 20, 1) == {"http": ["a"]}
            site.text = POD.format("b")
            assert await changes.after(clock, 20, 2) == {"http": ["b"]}
            assert static_pods.are_known
            for site.status, site.text in ((500, ""), (200, "kind: Service"), (200, "")):
                await site.asked_again(clock)
                assert changes.pods == {"http": ["b"]}  # what ran goes on
            assert "want a Pod or a PodList" in caplog.text
            site.text = POD.format("c")
            assert await changes.after(clock, 20, 3) == {"http": ["c"]}

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())


async def test_a_url_that_wants_another_header() -> None:
    site = Site()
    async with site.served() as url, sources(static_url=url) as (static_pods, changes, clock):
        await site.asked_again(clock)
        assert (changes.pods, static_pods.are_known) == ({}, False)
