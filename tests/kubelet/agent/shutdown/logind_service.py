"""A D-Bus daemon with a service that behaves like systemd-logind."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

from sampan.kubelet.agent.shutdown.logind import INTERFACE, PATH, SERVICE, SIGNAL, connect


class LogindService:
    """A fake logind that reads `max_delay_s` from its configuration directory on SIGHUP."""

    def __init__(self, bus: MessageBus, config_directory: Path) -> None:
        self._bus, self.config_directory = bus, config_directory
        self.max_delay_s, self.inhibited = 5.0, list[str]()
        self._locks: list[int] = []
        bus.add_message_handler(self._on_message)

    async def announce_shutdown(self, is_starting: bool) -> None:
        signal = Message.new_signal(PATH, INTERFACE, SIGNAL, "b", [is_starting])
        await self._bus.send(signal)

    def has_lock(self) -> bool:
        """Return whether an inhibitor lock is held."""
        held = []
        for lock in self._locks:
            try:
                if os.read(lock, 1) == b"":
                    os.close(lock)
            except BlockingIOError:
                held.append(lock)
        self._locks = held
        return bool(held)

    def close(self) -> None:
        for lock in self._locks:
            os.close(lock)

    def _on_message(self, message: Message) -> Message | bool:
        """Return the reply, or whether the message was handled."""
        if message.message_type is not MessageType.METHOD_CALL:
            return False
        match message.member:
            case "Get":
                delay = Variant("t", int(self.max_delay_s * 1e6))
                return Message.new_method_return(message, "v", [delay])
            case "Inhibit":
                self.inhibited = list(message.body)
                read_end, write_end = os.pipe()
                os.set_blocking(read_end, False)
                self._locks.append(read_end)
                reply = Message.new_method_return(message, "h", [0], unix_fds=[write_end])
                self._bus.send(reply).add_done_callback(lambda _: os.close(write_end))
                return True
            case "KillUnit":
                text = (self.config_directory / "99-kubelet.conf").read_text()
                self.max_delay_s = float(re.findall(r"InhibitDelayMaxSec=(\d+)", text)[0])
                return Message.new_method_return(message)
        return False


@asynccontextmanager
async def dbus_daemon(directory: Path) -> AsyncIterator[str]:
    """Run a bus and return its address."""
    address = f"unix:path={directory / 'bus'}"
    daemon = await asyncio.create_subprocess_exec(
        "dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address", f"--address={address}",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert daemon.stdout is not None
        await daemon.stdout.readline()
        yield address
    finally:
        daemon.terminate()
        await daemon.wait()


@asynccontextmanager
async def logind_service(directory: Path) -> AsyncIterator[tuple[str, LogindService]]:
    """Return the address of a bus, and the service on it."""
    async with dbus_daemon(directory) as address, connect(address) as bus:
        for name in (SERVICE, "org.freedesktop.systemd1"):
            await bus.request_name(name)
        service = LogindService(bus, directory / "logind")
        try:
            yield address, service
        finally:
            service.close()
