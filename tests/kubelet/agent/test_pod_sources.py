"""Sources of static pods: a directory that is read again, and a URL that is fetched again."""

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sampan.api.types.core_v1 import Pod
from sampan.host.clock import VirtualClock
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.pod_sources import BadManifest, StaticPodSources, read_pods
from tests.eventually import eventually
from tests.kubelet.agent.manifest_server import POD, ManifestServer


class RecordedChanges:
    """The last pod names of each source, and the number of updates."""

    def __init__(self) -> None:
        self.pods: dict[str, list[str]] = {}
        self.times = 0

    def update(self, source: str, pods: Any) -> None:
        listed_pods: list[Pod] = list(pods)
        self.pods[source] = sorted(pod.metadata.name.removesuffix("-n") for pod in listed_pods)
        self.times += 1

    async def wait_for_updates(self, clock: VirtualClock, seconds: float, times: int) -> dict[str, list[str]]:
        """Advance the clock until that many updates were made: files and sockets take real time."""
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


def test_manifest_directory_is_read_again_after_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        (tmp_path / "a.yaml").write_text(POD.format("a"))
        (tmp_path / ".hidden").write_text(POD.format("hidden"))
        async with sources(static_pod_path=tmp_path) as (static_pods, changes, clock):
            assert changes.pods == {"file": ["a"]}
            assert static_pods.are_known
            (tmp_path / "b.yaml").write_text(POD.format("b"))
            assert await changes.wait_for_updates(clock, 1, 2) == {"file": ["a", "b"]}
            (tmp_path / "b.yaml").write_text(POD.format("other"))
            os.utime(tmp_path / "b.yaml", (1, 1))
            assert await changes.wait_for_updates(clock, 1, 3) == {"file": ["a", "other"]}
            (tmp_path / "bad.yaml").write_text("kind: Service")
            assert await changes.wait_for_updates(clock, 1, 4) == {"file": ["a", "other"]}
            assert f"{tmp_path / 'bad.yaml'}: want a Pod or a PodList of v1" in caplog.text
            (tmp_path / "a.yaml").unlink()
            assert await changes.wait_for_updates(clock, 1, 5) == {"file": ["other"]}
            await clock.advance(60)
            assert changes.times == 5  # nothing has changed since the last update

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())


def test_invalid_manifest_files_do_not_hide_valid_manifests(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        (tmp_path / "a.yaml").write_text(POD.format("a"))
        (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
        with (tmp_path / "large.yaml").open("wb") as file:
            file.truncate(11 << 20)
        (tmp_path / "list.yaml").write_text("apiVersion: v1\nkind: PodList\nitems: [text]")
        async with sources(static_pod_path=tmp_path) as (_, changes, clock):
            assert changes.pods == {"file": ["a"]}
            (tmp_path / "b.yaml").write_text(POD.format("b"))
            assert await changes.wait_for_updates(clock, 1, 2) == {"file": ["a", "b"]}

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert f"{tmp_path / 'large.yaml'}: more than 10485760 bytes" in caplog.text


async def test_manifest_file_may_appear_after_the_start(tmp_path: Path) -> None:
    path = tmp_path / "pods.yaml"
    async with sources(static_pod_path=path) as (_, changes, clock):
        assert changes.pods == {"file": []}
        path.write_text(POD.format("a") + "---\n" + POD.format("b"))
        assert await changes.wait_for_updates(clock, 1, 2) == {"file": ["a", "b"]}


def test_manifest_url_is_fetched_again_and_errors_keep_the_pods(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        site = ManifestServer()
        async with (
            site.serving() as url,
            sources(static_url=url, static_url_headers={"X-Key": "secret"}) as (static_pods, changes, clock),
        ):
            assert not static_pods.are_known
            assert await changes.wait_for_updates(clock, 20, 1) == {"http": ["a"]}
            site.text = POD.format("b")
            assert await changes.wait_for_updates(clock, 20, 2) == {"http": ["b"]}
            assert static_pods.are_known
            for site.status, site.text in ((500, ""), (200, "kind: Service"), (200, "")):
                await site.wait_for_next_request(clock)
                assert changes.pods == {"http": ["b"]}  # the pods of the last valid response are kept
            assert "want a Pod or a PodList" in caplog.text
            site.text = POD.format("c")
            assert await changes.wait_for_updates(clock, 20, 3) == {"http": ["c"]}

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())


async def test_manifest_url_that_responds_403_leaves_the_pods_unknown() -> None:
    site = ManifestServer()
    async with site.serving() as url, sources(static_url=url) as (static_pods, changes, clock):
        await site.wait_for_next_request(clock)
        assert (changes.pods, static_pods.are_known) == ({}, False)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("containers: [{name: ../../../x, image: i}]", "../../../x"),
        ("containers: [{name: c, image: i}], initContainers: [{name: a/b, image: i}]", "a/b"),
        ("containers: [{name: c, image: i}], volumes: [{name: .., emptyDir: {}}]", ".."),
    ],
)
def test_names_in_static_pods_that_lead_out_of_their_directories_are_refused(spec: str, name: str) -> None:
    text = f"{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{{spec}}}}}"
    with pytest.raises(BadManifest, match=re.escape(repr(name))):
        read_pods(text, "http", "node", 0.0)


@pytest.mark.parametrize("uid", ["../x", "..", "a/b"])
def test_uids_of_static_pods_that_lead_out_of_their_directories_are_refused(uid: str) -> None:
    text = f"{{apiVersion: v1, kind: Pod, metadata: {{name: p, uid: '{uid}'}}, spec: {{}}}}"
    with pytest.raises(BadManifest, match="uid"):
        read_pods(text, "http", "node", 0.0)
