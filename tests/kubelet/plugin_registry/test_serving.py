"""Sockets that are asked by gRPC."""

import asyncio
import os
from pathlib import Path

from sampan.kubelet.devices.pod_resources import proto
from sampan.kubelet.plugin_registry.calls import Message, call
from sampan.kubelet.plugin_registry.serving import Service, SocketServer


async def _nothing(request: Message) -> Message:
    return proto().ListPodResourcesResponse()


def test_in_a_folder_whose_path_is_long(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    service = Service(schema=proto, name="PodResourcesLister", answers={"List": _nothing})

    async def main() -> None:
        async with asyncio.timeout(60), SocketServer(path=folder / "s.sock", services=[service]).serving():
            held = os.open(folder, os.O_PATH)
            try:
                request = proto().ListPodResourcesRequest()
                await call(f"/proc/self/fd/{held}/s.sock", proto(), "PodResourcesLister", "List", request)
            finally:
                os.close(held)
        assert list(folder.iterdir()) == []

    asyncio.run(main())
