"""gRPC servers on Unix sockets."""

import asyncio
import os
from pathlib import Path

import pytest

from sampan.host.clock import VirtualClock
from sampan.kubelet.devices.pod_resources import proto
from sampan.kubelet.plugin_registry.calls import Message, call
from sampan.kubelet.plugin_registry.socket_server import GrpcService, SocketServer
from tests.eventually import eventually


async def _respond_empty(request: Message) -> Message:
    return proto().ListPodResourcesResponse()


async def test_socket_in_a_directory_with_a_long_path(tmp_path: Path) -> None:
    directory = tmp_path / ("x" * 120)
    directory.mkdir()
    service = GrpcService(schema=proto, name="PodResourcesLister", methods={"List": _respond_empty})

    async with asyncio.timeout(60), SocketServer(path=directory / "s.sock", services=[service]).listen():
        held = os.open(directory, os.O_PATH)
        try:
            request = proto().ListPodResourcesRequest()
            await call(f"/proc/self/fd/{held}/s.sock", proto(), "PodResourcesLister", "List", request)
        finally:
            os.close(held)
    assert list(directory.iterdir()) == []


def test_failed_listen_is_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = GrpcService(schema=proto, name="PodResourcesLister", methods={"List": _respond_empty})
    (tmp_path / "directory").touch()

    async def main() -> None:
        clock, socket = VirtualClock(), tmp_path / "directory" / "s.sock"
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            listen = group.create_task(SocketServer(path=socket, services=[service]).run(clock))
            await clock.advance(0)
            (tmp_path / "directory").unlink()
            await clock.advance(10)
            await eventually(socket.exists)
            listen.cancel()

    asyncio.run(main())
    assert f"cannot listen on {tmp_path}/directory/s.sock" in caplog.text
