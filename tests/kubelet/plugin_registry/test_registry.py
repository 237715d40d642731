"""Registration of plugins that are found in the registry directory."""

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sampan.host.clock import VirtualClock
from sampan.kubelet.plugin_registry import PluginError, PluginRegistry
from sampan.kubelet.plugin_registry.registry import proto
from sampan.kubelet.plugin_registry.socket_server import GrpcService, SocketServer
from tests.eventually import eventually

PATIENCE_S = 60


class Plugin:
    """A plugin that answers GetInfo and records its registration statuses."""

    def __init__(self, name: str, type: str = "Boat") -> None:
        self.info = {"name": name, "type": type, "supported_versions": ["1"]}
        self.statuses: list[tuple[bool, str]] = []

    @asynccontextmanager
    async def listen(self, path: Path) -> AsyncIterator[None]:
        methods = {"GetInfo": self._info, "NotifyRegistrationStatus": self._notify_registration_status}
        async with SocketServer(
            path=path, services=[GrpcService(schema=proto, name="Registration", methods=methods)]
        ).listen():
            yield

    async def _info(self, request: Any) -> Any:
        return proto().PluginInfo(**self.info)

    async def _notify_registration_status(self, request: Any) -> Any:
        self.statuses.append((request.plugin_registered, request.error))
        return proto().RegistrationStatusResponse()


class RecordingHandler:
    def __init__(self, **faults: Exception) -> None:
        self.names: list[str] = []
        self.faults = faults

    def check(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        if "check" in self.faults:
            raise self.faults["check"]

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        if "register" in self.faults:
            raise self.faults["register"]
        self.names.append(name)

    async def deregister(self, name: str, endpoint: str) -> None:
        self.names.remove(name)


@pytest.mark.parametrize(
    ("type", "faults", "status"),
    [
        ("Boat", {}, (True, "")),
        ("Car", {}, (False, "no handler registered for plugin type: Car at socket {path}")),
        ("Boat", {"check": PluginError("it leaks")}, (False, "plugin validation failed with err: it leaks")),
        ("Boat", {"register": PluginError("no room")}, (False, "plugin registration failed with err: no room")),
    ],
    ids=["registered", "no-handler", "validation-failed", "registration-failed"],
)
async def test_plugin_is_notified_of_its_registration_status(
    type: str, faults: dict[str, Exception], status: tuple[bool, str]
) -> None:
    with tempfile.TemporaryDirectory(prefix="sr") as directory:
        path, plugin, handler = Path(directory) / "p.sock", Plugin("one", type), RecordingHandler(**faults)
        registry = PluginRegistry(directory=Path(directory), handlers={"Boat": handler}, clock=VirtualClock())
        async with asyncio.timeout(PATIENCE_S), plugin.listen(path):
            await registry.scan()
        is_registered, error = status
        text = f"RegisterPlugin error -- {error.format(path=path)}" if error else ""
        assert plugin.statuses == [(is_registered, text)]
        assert handler.names == (["one"] if is_registered else [])


async def test_failed_registration_is_retried_with_back_off() -> None:
    """An unexpected exception of the handler does not stop the registry."""

    with tempfile.TemporaryDirectory(prefix="sr") as directory:
        clock, plugin, handler = VirtualClock(), Plugin("one"), RecordingHandler(register=ZeroDivisionError("oh"))
        registry = PluginRegistry(directory=Path(directory), handlers={"Boat": handler}, clock=clock)
        async with asyncio.timeout(PATIENCE_S), plugin.listen(Path(directory) / "p.sock"):
            await registry.scan()
            handler.faults = {}
            await registry.scan()
            assert handler.names == []
            await clock.advance(1)
            await registry.scan()
            assert (handler.names, plugin.statuses) == (["one"], [(True, "")])
        await registry.scan()
        assert handler.names == []


async def test_unresponsive_plugin_does_not_delay_registration_of_another_plugin() -> None:
    with tempfile.TemporaryDirectory(prefix="sr") as directory, socket.socket(socket.AF_UNIX) as unresponsive:
        unresponsive.bind(f"{directory}/a.sock")
        unresponsive.listen()
        plugin, handler = Plugin("one"), RecordingHandler()
        registry = PluginRegistry(directory=Path(directory), handlers={"Boat": handler}, clock=VirtualClock())
        listen = plugin.listen(Path(directory) / "b.sock")
        async with asyncio.timeout(PATIENCE_S), listen, asyncio.TaskGroup() as group:
            scanning = group.create_task(registry.scan())
            await eventually(lambda: bool(plugin.statuses))
            assert not scanning.done()
            scanning.cancel()
        assert handler.names == ["one"]


async def test_socket_server_stops_while_a_client_is_connected() -> None:
    with tempfile.TemporaryDirectory(prefix="sr") as directory:
        path = Path(directory) / "p.sock"
        async with asyncio.timeout(PATIENCE_S):
            async with Plugin("one").listen(path):
                reader, writer = await asyncio.open_unix_connection(path)
                assert await reader.read(1), "the gRPC server sends its preface"
            await reader.read()
            writer.close()
            assert os.listdir(directory) == []


def test_unreadable_plugin_directory_is_scanned_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = tmp_path / "plugins"
    directory.touch()

    async def main() -> None:
        clock = VirtualClock()
        registry = PluginRegistry(directory=directory, handlers={}, clock=clock)
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            scanning = group.create_task(registry.run())
            await clock.advance(0)
            directory.unlink()
            await clock.advance(1)
            assert directory.is_dir()
            scanning.cancel()

    asyncio.run(main())
    assert "cannot scan the plugin directory" in caplog.text
