"""Inhibitor locks of logind on a real bus, and a bus that fails or sends invalid data."""

import asyncio
import contextlib
import logging
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus

from sampan.host.clock import VirtualClock
from sampan.kubelet.agent.shutdown.logind import SERVICE, Logind, LogindError, ShutdownInhibitor, connect
from tests.eventually import eventually
from tests.kubelet.agent.shutdown.logind_service import dbus_daemon, logind_service

needs_dbus_daemon = pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="needs dbus-daemon")


async def do_nothing() -> None:
    return


def inhibitor(address: str) -> ShutdownInhibitor:
    return ShutdownInhibitor(
        delay_s=1, clock=VirtualClock(), on_shutdown=do_nothing, on_cancel=lambda: None, address=address
    )


@asynccontextmanager
async def listening_bus(directory: Path) -> AsyncIterator[tuple[str, socket.socket]]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(directory / "bus"))
        server.listen()
        server.setblocking(False)
        async with asyncio.timeout(60):
            yield f"unix:path={directory / 'bus'}", server


async def accept(server: socket.socket) -> socket.socket:
    link, _ = await asyncio.get_running_loop().sock_accept(server)
    link.setblocking(False)
    return link


async def greet(link: socket.socket) -> None:
    """Authenticate the client and answer its Hello."""
    loop, received = asyncio.get_running_loop(), b""
    for reply in (b"OK 1\r\n", b"AGREE_UNIX_FD\r\n"):
        received += await loop.sock_recv(link, 4096)
        await loop.sock_sendall(link, reply)
    while b"Hello" not in received:
        received += await loop.sock_recv(link, 4096)
    hello = Message.new_method_return(Message(path="/", member="Hello", serial=1, sender=":1.0"), "s", [":1.1"])
    hello.serial = 1
    await loop.sock_sendall(link, hello._marshall(False))


async def test_bus_that_closes_the_connection_disables_graceful_shutdown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with listening_bus(tmp_path) as (address, server), asyncio.TaskGroup() as group:
            running = group.create_task(inhibitor(address).run())
            (await accept(server)).close()
            await running
    assert "graceful node shutdown is not available" in caplog.text


async def test_bus_that_sends_invalid_data_disables_graceful_shutdown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with listening_bus(tmp_path) as (address, server), asyncio.TaskGroup() as group:

            async def send_invalid_data() -> None:
                loop = asyncio.get_running_loop()
                with await accept(server) as link:
                    await greet(link)
                    await loop.sock_recv(link, 4096)
                    await loop.sock_sendall(link, b"\xff" * 3 + bytes(61))
                    with contextlib.suppress(ConnectionResetError):
                        await loop.sock_recv(link, 4096)  # Until the client closes the connection.

            group.create_task(send_invalid_data())
            await inhibitor(address).run()
    assert "graceful node shutdown is not available" in caplog.text


@needs_dbus_daemon
async def test_missing_logind_service_is_an_error(tmp_path: Path) -> None:
    async with dbus_daemon(tmp_path) as address, connect(address) as bus:
        with pytest.raises(LogindError, match="ServiceUnknown"):
            await Logind(bus).max_delay_s()


@needs_dbus_daemon
async def test_a_lock_is_held_until_its_descriptor_is_closed(tmp_path: Path) -> None:
    async with logind_service(tmp_path) as (address, service), connect(address) as bus:
        lock = await Logind(bus).inhibit()
        assert service.inhibited[0] == "shutdown"
        assert service.has_lock()
        os.close(lock)
        await eventually(lambda: not service.has_lock())


@needs_dbus_daemon
async def test_inhibitor_lock_received_after_cancellation_is_released(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    called, released = asyncio.Event(), asyncio.Event()
    calls: list[Message] = []

    def on_message(message: Message) -> bool:
        """Leave the call without a reply; it follows later."""
        if message.message_type is MessageType.METHOD_CALL and message.member == "Inhibit":
            calls.append(message)
            called.set()
            return True
        return False

    async with dbus_daemon(tmp_path) as address, connect(address) as service, connect(address) as bus:
        await service.request_name(SERVICE)
        service.add_message_handler(on_message)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            inhibiting = group.create_task(Logind(bus).inhibit())
            await called.wait()
            inhibiting.cancel()
            await asyncio.wait([inhibiting])
            await _send_lock(service, calls[0], write_end)
            asyncio.get_running_loop().add_reader(read_end, released.set)
            await released.wait()  # The pipe has no writer any more.
            asyncio.get_running_loop().remove_reader(read_end)
    os.close(read_end)


async def _send_lock(service: MessageBus, call: Message, descriptor: int) -> None:
    await service.send(Message.new_method_return(call, "h", [0], unix_fds=[descriptor]))
    os.close(descriptor)


@needs_dbus_daemon
async def test_unwritable_logind_configuration_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with dbus_daemon(tmp_path) as address, connect(address) as bus:
        with pytest.raises(LogindError, match="cannot configure the maximum delay"):
            await Logind(bus, config_directory=tmp_path / "file" / "directory").raise_max_delay(5)
