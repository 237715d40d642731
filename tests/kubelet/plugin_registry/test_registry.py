"""Plug-ins as they are found, whoever has use for them."""

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sampan.kubelet.plugin_registry import PluginError, PluginRegistry
from sampan.kubelet.plugin_registry.registry import proto
from sampan.kubelet.plugin_registry.socket_server import GrpcService, SocketServer
from sampan.machinery.clock import VirtualClock
from tests.eventually import eventually

PATIENCE_S = 60


class Plugin:
    """Says who it is, and keeps what it is told."""

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


class Keeper:
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
    ids=["taken", "of no use", "unfit", "not now"],
)
async def test_the_registration_status_that_a_plugin_gets(
    type: str, faults: dict[str, Exception], status: tuple[bool, str]
) -> None:
    with tempfile.TemporaryDirectory(prefix="sr") as directory:
        path, plugin, keeper = Path(directory) / "p.sock", Plugin("one", type), Keeper(**faults)
        registry = PluginRegistry(directory=Path(directory), handlers={"Boat": keeper}, clock=VirtualClock())
        async with asyncio.timeout(PATIENCE_S), plugin.listen(path):
            await registry.scan()
        is_registered, why = status
        text = f"RegisterPlugin error -- {why.format(path=path)}" if why else ""
        assert plugin.statuses == [(is_registered, text)]
        assert keeper.names == (["one"] if is_registered else [])


async def test_trouble_of_any_kind_is_met_with_patience() -> None:
    """One that the handler chokes on is tried again, later and later, and the kubelet goes on."""

    with tempfile.TemporaryDirectory(prefix="sr") as directory:
        clock, plugin, keeper = VirtualClock(), Plugin("one"), Keeper(register=ZeroDivisionError("oh"))
        registry = PluginRegistry(directory=Path(directory), handlers={"Boat": keeper}, clock=clock)
        async with asyncio.timeout(PATIENCE_S), plugin.listen(Path(directory) / "p.sock"):
            await registry.scan()
            keeper.faults = {}
            await registry.scan()
            assert keeper.names == []
            await clock.advance(1)
            await registry.scan()
            assert (keeper.names, plugin.statuses) == (["one"], [(True, "")])
        await registry.scan()
        assert keeper.names == []


async def test_one_that_does_not_speak_keeps_no_other_waiting() -> None:
    with tempfile.TemporaryDirectory(prefix="sr") as directory, socket.socket(socket.AF_UNIX) as mute:
        mute.bind(f"{directory}/a.sock")
        mute.listen()
        plugin, keeper = Plugin("one"), Keeper()
        registry = PluginRegistry(directory=Path(directory), handlers={"Boat": keeper}, clock=VirtualClock())
        listen = plugin.listen(Path(directory) / "b.sock")
        async with asyncio.timeout(PATIENCE_S), listen, asyncio.TaskGroup() as group:
            looking = group.create_task(registry.scan())
            await eventually(lambda: bool(plugin.statuses))
            assert not looking.done()
            looking.cancel()
        assert keeper.names == ["one"]


async def test_a_server_ends_although_somebody_is_connected() -> None:
    with tempfile.TemporaryDirectory(prefix="sr") as directory:
        path = Path(directory) / "p.sock"
        async with asyncio.timeout(PATIENCE_S):
            async with Plugin("one").listen(path):
                reader, writer = await asyncio.open_unix_connection(path)
                assert await reader.read(1), "the gRPC server greets"
            await reader.read()
            writer.close()
            assert os.listdir(directory) == []


def test_a_directory_that_cannot_be_read_is_looked_at_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = tmp_path / "plugins"
    directory.touch()

    async def main() -> None:
        clock = VirtualClock()
        registry = PluginRegistry(directory=directory, handlers={}, clock=clock)
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            looking = group.create_task(registry.run())
            await clock.advance(0)
            directory.unlink()
            await clock.advance(1)
            assert directory.is_dir()
            looking.cancel()

    asyncio.run(main())
    assert "cannot scan the plugin directory" in caplog.text
