"""Watches and writes of a real node, and the images in its status."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import Node
from sampan.apiserver.request.call import UserInfo
from sampan.kubelet.agent.node_status_updater import node_images
from sampan.kubelet.config import KubeletConfig
from sampan.machinery.client.codecs import ObjectCodec
from sampan.machinery.client.transport import Events, Request, Response
from sampan.runtimes.contract import ImageInfo, RuntimeStatus
from sampan.testing import Cluster
from tests.e2e.chaos.interruptible_transport import Line
from tests.eventually import eventually
from tests.kubelet.agent.real_node import NAME, real_node


class RecordingLine(Line):
    """A connection that records watches and writes."""

    def __init__(self) -> None:
        super().__init__()
        self.watched: set[tuple[str, str]] = set()
        """Watched paths with their field selectors."""
        self.written: list[str] = []

    async def send_request(self, request: Request, user: UserInfo) -> Response:
        if request.method != "GET":
            self.written.append(f"{request.method} {request.path}")
        return await super().send_request(request, user)

    @asynccontextmanager
    async def open_watch(self, request: Request, codec: ObjectCodec, user: UserInfo) -> AsyncIterator[Events]:
        self.watched.add((request.path, dict(request.query).get("fieldSelector", "")))
        async with super().open_watch(request, codec, user) as events:
            yield events


async def test_node_watches_only_its_objects_and_renews_its_lease_without_status_writes(tmp_path: Path) -> None:
    line = RecordingLine()
    async with Cluster(components=("apiserver", "controllers")) as cluster:
        line.open(cluster.assembly.transport)
        times = KubeletConfig(renew_s=0.1, status_s=3600)
        async with real_node(tmp_path, line, kubelet=times) as kubelet:
            await kubelet.ready.wait()
            watches = {watch for watch in line.watched if watch[0] in ("/api/v1/nodes", "/api/v1/pods")}
            assert watches == {
                ("/api/v1/nodes", f"metadata.name={NAME}"),
                ("/api/v1/pods", f"spec.nodeName={NAME}"),
            }
            before = await cluster.client.for_kind(Lease).get(NAME, "kube-node-lease")
            line.written.clear()
            await eventually(lambda: len([request for request in line.written if request.startswith("PUT")]) >= 3)
            after = await cluster.client.for_kind(Lease).get(NAME, "kube-node-lease")
            assert after.spec.renewTime != before.spec.renewTime
            assert not [request for request in line.written if request.endswith(f"/nodes/{NAME}/status")]
            await line.cut()


async def test_failed_runtime_status_makes_the_node_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def raise_error() -> RuntimeStatus:
        raise ZeroDivisionError("oh")

    async def wait_for_ready_condition(cluster: Cluster, expected: tuple[str, str]) -> None:
        async def holds() -> bool:
            conditions = (await cluster.client.for_kind(Node).get(NAME)).status.conditions
            return [(row.status, row.message) for row in conditions if row.type == "Ready"] == [expected]

        await eventually(holds)

    line = Line()
    async with Cluster(components=("apiserver",)) as cluster:
        line.open(cluster.assembly.transport)
        async with real_node(tmp_path, line, kubelet=KubeletConfig(status_s=0.1)) as kubelet:
            await kubelet.ready.wait()
            with monkeypatch.context() as patch:
                patch.setattr(kubelet.runtime, "status", raise_error)
                await wait_for_ready_condition(cluster, ("False", "container runtime is down: oh"))
            await wait_for_ready_condition(cluster, ("True", "kubelet is posting ready status"))
            await line.cut()


def test_the_status_lists_the_largest_images_with_their_names() -> None:
    many = [ImageInfo(id=str(at), names=[f"image-{at}"], size=at) for at in range(60)]
    container_images = node_images([*many, ImageInfo(id="nameless", size=1000)])
    assert [image.sizeBytes for image in container_images] == list(range(59, 9, -1))
    assert container_images[0].names == ["image-59"]


def test_the_status_lists_five_names_of_an_image_digests_first() -> None:
    (container_image,) = node_images(
        [ImageInfo(id="x", names=[f"n{at}" for at in range(9)], digests=["a@sha256:1"], size=7)]
    )
    assert container_image.names == ["a@sha256:1", "n0", "n1", "n2", "n3"]
