"""The D-Bus interface of systemd-logind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from sampan.kubelet.agent.logind import wire
from sampan.kubelet.agent.logind.bus import Bus, BusFault
from sampan.kubelet.agent.logind.wire import Message

SERVICE, PATH = "org.freedesktop.login1", "/org/freedesktop/login1"
INTERFACE = f"{SERVICE}.Manager"
SIGNAL = "PrepareForShutdown"
FOLDER = Path("/etc/systemd/logind.conf.d")
_FILE = "99-kubelet.conf"
_SYSTEMD = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
_HANG_UP = 1


class Logind:
    def __init__(self, bus: Bus, *, folder: Path = FOLDER) -> None:
        """`folder` is the drop-in directory of logind's configuration."""
        self._bus, self._folder = bus, folder

    async def delay_s(self) -> float:
        """Return the maximum time in seconds that an inhibitor lock may delay the shutdown."""
        answer = await self._bus.call(
            SERVICE, PATH, "org.freedesktop.DBus.Properties", "Get", "ss", INTERFACE, "InhibitDelayMaxUSec"
        )
        try:
            return float(answer.body[0][1]) / 1e6
        except (LookupError, TypeError, ValueError):
            raise BusFault("logind does not say how long it waits") from None

    async def allow(self, seconds: float) -> None:
        """Configure logind to allow a delay of this many seconds."""
        try:
            await asyncio.to_thread(self._write, seconds)
        except OSError as error:
            raise BusFault(f"logind cannot be told to wait: {error}") from None
        await self._bus.call(*_SYSTEMD, "KillUnit", "ssi", "systemd-logind.service", "all", _HANG_UP)

    def _write(self, seconds: float) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / _FILE).write_text(f"# Kubelet logind override\n[Login]\nInhibitDelayMaxSec={seconds:.0f}\n")

    async def inhibit(self) -> int:
        """Take an inhibitor lock. It delays a shutdown until the returned file descriptor is closed."""
        why = "Kubelet needs time to handle node shutdown"
        answer = await self._bus.call(SERVICE, PATH, INTERFACE, "Inhibit", "ssss", "shutdown", "kubelet", why, "delay")
        if not answer.fds:
            raise BusFault("logind has given no lock")
        for extra in answer.fds[1:]:
            os.close(extra)
        return answer.fds[0]

    async def follow(self, told: Callable[[bool], None]) -> None:
        """Call `told` with True when the machine shuts down, and with False when the shutdown is cancelled."""

        def on_signal(message: Message) -> None:
            if (message.kind, message.interface, message.member) == (wire.SIGNAL, INTERFACE, SIGNAL) and message.body:
                told(bool(message.body[0]))

        self._bus.on_signal = on_signal
        await self._bus.match(f"type='signal',interface='{INTERFACE}',member='{SIGNAL}',path='{PATH}'")
