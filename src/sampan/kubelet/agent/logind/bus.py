"""A connection to a D-Bus message bus: method calls, signals and file descriptor passing."""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from sampan.kubelet.agent.logind import wire
from sampan.kubelet.agent.logind.wire import Message

SYSTEM = "unix:path=/run/dbus/system_bus_socket"
_MOST_FDS = 16
_PATIENCE_S = 25.0
"""Response timeout, measured by the event loop's clock."""
_OWN = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")

Handler = Callable[[Message], None]


class BusFault(Exception):
    """The bus is unavailable, or the called service returned an error."""


class Bus:
    """A connection; use `connected` to open one."""

    def __init__(self, link: socket.socket) -> None:
        self._link, self._loop = link, asyncio.get_running_loop()
        self._serial = 0
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._rest, self._fds = b"", list[int]()
        self.on_signal: Handler = lambda message: None
        self.on_call: Handler = lambda message: None
        self.on_end: Callable[[], None] = lambda: None
        """Called when the bus has closed the connection."""

    async def call(
        self, service: str, path: str, interface: str, member: str, signature: str = "", *values: Any
    ) -> Message:
        """Call a method and return the response. Raise BusFault on errors."""
        message = Message(
            kind=wire.CALL,
            path=path,
            interface=interface,
            member=member,
            destination=service,
            signature=signature,
            body=values,
        )
        answer: asyncio.Future[Message] = self._loop.create_future()
        serial = self._serial + 1
        self._waiting[serial] = answer
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self.send(message)
                reply = await answer
        except TimeoutError:
            raise BusFault(f"{interface}.{member}: no answer") from None
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                _close(answer.result().fds)
            raise
        finally:
            self._waiting.pop(serial, None)
        if reply.kind == wire.ERROR:
            raise BusFault(f"{interface}.{member}: {reply.error}: {' '.join(map(str, reply.body))}")
        return reply

    async def send(self, message: Message) -> None:
        self._serial += 1
        message.serial = self._serial
        message.fd_count = len(message.fds)
        data = wire.encode(message)
        try:
            if message.fds:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", message.fds))]
                sent = self._link.sendmsg([data], rights)
                data = data[sent:]
            await self._loop.sock_sendall(self._link, data)
        except OSError as error:
            raise BusFault(f"the bus is gone: {error.strerror or error}") from None

    async def match(self, rule: str) -> None:
        await self.call(*_OWN, "AddMatch", "s", rule)

    async def own(self, name: str) -> None:
        """Request a well-known name on the bus."""
        await self.call(*_OWN, "RequestName", "su", name, 0)

    # -- internals ---------------------------------------------------------------------------------------------------

    async def say_hello(self) -> None:
        await self._authenticate()
        self._loop.add_reader(self._link, self._on_readable)
        await self.call(*_OWN, "Hello")

    async def _authenticate(self) -> None:
        uid = str(os.geteuid()).encode().hex()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                for command, expected in ((f"\0AUTH EXTERNAL {uid}", b"OK"), ("NEGOTIATE_UNIX_FD", b"AGREE_UNIX_FD")):
                    await self._loop.sock_sendall(self._link, f"{command}\r\n".encode())
                    answer = await self._loop.sock_recv(self._link, 4096)
                    if not answer.startswith(expected):
                        raise BusFault(f"the bus does not let us in: {answer.decode('ascii', 'replace').strip()}")
                await self._loop.sock_sendall(self._link, b"BEGIN\r\n")
        except OSError as error:  # Includes TimeoutError.
            raise BusFault(f"the bus does not let us in: {error.strerror or 'no answer'}") from None

    def _on_readable(self) -> None:
        try:
            data, rights, _, _ = self._link.recvmsg(1 << 16, socket.CMSG_SPACE(_MOST_FDS * 4))
        except BlockingIOError:
            return
        except OSError:
            data, rights = b"", []
        if not data:
            return self._end()
        for level, kind, packed in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._fds += array.array("i", packed[: len(packed) - len(packed) % 4])
        self._rest += data
        try:
            self._take_messages()
        except (ValueError, LookupError, struct.error):  # The start of the next message is unknown.
            self._end()

    def _take_messages(self) -> None:
        while (size := wire.length(self._rest)) is not None and len(self._rest) >= size:
            message, self._rest = wire.decode(self._rest[:size]), self._rest[size:]
            message.fds, self._fds = self._fds[: message.fd_count], self._fds[message.fd_count :]
            self._on_message(message)

    def _on_message(self, message: Message) -> None:
        if message.kind == wire.SIGNAL:
            self.on_signal(message)
            _close(message.fds)
        elif message.kind == wire.CALL:
            self.on_call(message)
        elif (waiting := self._waiting.get(message.reply_to)) is not None and not waiting.done():
            waiting.set_result(message)
        else:
            # The caller no longer waits. An inhibitor lock that arrives too late would be held for ever.
            _close(message.fds)

    def _end(self) -> None:
        self._loop.remove_reader(self._link)
        self.on_end()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(BusFault("the bus is gone"))

    def close(self) -> None:
        self._loop.remove_reader(self._link)
        _close(self._fds)
        self._link.close()


def _close(files: Iterable[int]) -> None:
    for fd in files:
        os.close(fd)


@asynccontextmanager
async def connected(address: str = "") -> AsyncIterator[Bus]:
    """Connect to the bus at `address`, by default the system bus. Raise BusFault if that fails."""
    link = socket.socket(socket.AF_UNIX)
    link.setblocking(False)
    with contextlib.closing(link):
        try:
            await asyncio.get_running_loop().sock_connect(link, _place(address))
        except OSError as error:
            raise BusFault(f"there is no bus: {error.strerror or error}") from None
        bus = Bus(link)
        try:
            await bus.say_hello()
            yield bus
        finally:
            bus.close()


def _place(address: str) -> str:
    """Return the socket path of the address, of several alternatives the first."""
    address = (address or os.environ.get("DBUS_SYSTEM_BUS_ADDRESS") or SYSTEM).partition(";")[0]
    kind, _, rest = address.partition(":")
    settings = dict(part.partition("=")[::2] for part in rest.split(","))
    if kind == "unix" and "path" in settings:
        return settings["path"]
    if kind == "unix" and "abstract" in settings:
        return f"\0{settings['abstract']}"
    raise BusFault(f"the address of the bus cannot be {address!r}")
