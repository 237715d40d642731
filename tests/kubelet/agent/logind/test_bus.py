"""A bus that does not do as it should."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sampan.kubelet.agent.logind import ShutdownWatch, wire
from sampan.kubelet.agent.logind.bus import BusFault, connected
from sampan.kubelet.agent.logind.login import Logind
from sampan.kubelet.agent.logind.wire import Message
from sampan.machinery.clock import VirtualClock


class Daemon:
    """The other end, message by message."""

    def __init__(self, link: socket.socket) -> None:
        self._link, self._loop = link, asyncio.get_running_loop()

    async def greet(self) -> None:
        for answer in (b"OK 1\r\n", b"AGREE_UNIX_FD\r\n"):
            await self._loop.sock_recv(self._link, 4096)
            await self.send(answer)
        rest = await self._loop.sock_recv(self._link, 4096)
        hello = rest.removeprefix(b"BEGIN\r\n") or await self._loop.sock_recv(self._link, 4096)
        await self.send(_answer(wire.decode(hello)))

    async def called(self) -> Message:
        return wire.decode(await self._loop.sock_recv(self._link, 4096))

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._link, data)

    def send_file(self, data: bytes, file: int) -> None:
        socket.send_fds(self._link, [data], [file])


def _answer(call: Message, fds: int = 0) -> bytes:
    return wire.encode(Message(kind=wire.RETURN, serial=1, reply_to=call.serial, fd_count=fds))


@asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[tuple[str, socket.socket]]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "bus"))
        server.listen()
        server.setblocking(False)
        async with asyncio.timeout(60):
            yield f"unix:path={folder / 'bus'}", server


async def accepted(server: socket.socket) -> socket.socket:
    link, _ = await asyncio.get_running_loop().sock_accept(server)
    link.setblocking(False)
    return link


def test_one_that_hangs_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def nothing() -> None:
        return

    async def main() -> None:
        async with listening(tmp_path) as (address, server), asyncio.TaskGroup() as group:
            watch = ShutdownWatch(
                wanted_s=1, clock=VirtualClock(), on_shutdown=nothing, on_cancel=lambda: None, address=address
            )
            watching = group.create_task(watch.run())
            (await accepted(server)).close()
            await watching

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert "graceful node shutdown is not available" in caplog.text


async def test_one_that_speaks_nonsense(tmp_path: Path) -> None:
    async with listening(tmp_path) as (address, server), asyncio.TaskGroup() as group:

        async def speak() -> None:
            with await accepted(server) as link:
                daemon = Daemon(link)
                await daemon.greet()
                await daemon.called()
                await daemon.send(b"\xff" * 3 + bytes(61))
                await asyncio.get_running_loop().sock_recv(link, 1)

        group.create_task(speak())
        async with connected(address) as bus:
            ended = asyncio.Event()
            bus.on_end = ended.set
            with pytest.raises(BusFault):
                await bus.match("type='signal'")
            await ended.wait()


async def test_a_lock_that_comes_too_late_is_not_held(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    async with listening(tmp_path) as (address, server), asyncio.TaskGroup() as group:
        given_up, freed = asyncio.Event(), asyncio.Event()

        async def give() -> None:
            with await accepted(server) as link:
                daemon = Daemon(link)
                await daemon.greet()
                asked = await daemon.called()
                asking.cancel()
                await given_up.wait()
                daemon.send_file(_answer(asked, fds=1), theirs)
                os.close(theirs)
                asyncio.get_running_loop().add_reader(ours, freed.set)
                await freed.wait()  # nobody can write any more: it is closed
                asyncio.get_running_loop().remove_reader(ours)

        giving = group.create_task(give())
        async with connected(address) as bus:
            asking = group.create_task(Logind(bus).inhibit())
            await asyncio.wait([asking])
            given_up.set()
            await giving
    os.close(ours)


async def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    async with listening(tmp_path) as (address, server), asyncio.TaskGroup() as group:

        async def speak() -> None:
            with await accepted(server) as link:
                await Daemon(link).greet()
                await asyncio.get_running_loop().sock_recv(link, 1)

        group.create_task(speak())
        async with connected(address) as bus:
            with pytest.raises(BusFault, match="logind cannot be told to wait"):
                await Logind(bus, folder=tmp_path / "file" / "folder").allow(5)
