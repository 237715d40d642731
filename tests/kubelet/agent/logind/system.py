"""A bus of one's own with something on it that acts as logind does."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sampan.kubelet.agent.logind import wire
from sampan.kubelet.agent.logind.bus import Bus, connected
from sampan.kubelet.agent.logind.login import INTERFACE, PATH, SERVICE, SIGNAL
from sampan.kubelet.agent.logind.wire import Message


class System:
    """`delay_s` is raised as its folder says when logind is hung up on."""

    def __init__(self, bus: Bus, folder: Path, group: asyncio.TaskGroup) -> None:
        self._bus, self.folder, self._group = bus, folder, group
        self.delay_s, self.inhibited = 5.0, list[str]()
        self._locks: list[int] = []
        bus.on_call = self._on_call

    async def goes_down(self, is_true: bool) -> None:
        await self._bus.send(
            Message(kind=wire.SIGNAL, path=PATH, interface=INTERFACE, member=SIGNAL, signature="b", body=[is_true])
        )

    def is_free(self) -> bool:
        """Nobody puts the machine's end off."""
        held = []
        for lock in self._locks:
            try:
                if os.read(lock, 1) == b"":
                    os.close(lock)
                    continue
            except BlockingIOError:
                held.append(lock)
        self._locks = held
        return not held

    def close(self) -> None:
        for lock in self._locks:
            os.close(lock)

    def _on_call(self, message: Message) -> None:
        match message.member:
            case "Get":
                self._answer(message, "v", ("t", int(self.delay_s * 1e6)))
            case "Inhibit":
                self.inhibited = list(message.body)
                mine, theirs = os.pipe()
                os.set_blocking(mine, False)
                self._locks.append(mine)
                self._answer(message, "h", 0, fds=[theirs])
            case "KillUnit":
                text = (self.folder / "99-kubelet.conf").read_text()
                self.delay_s = float(re.findall(r"InhibitDelayMaxSec=(\d+)", text)[0])
                self._answer(message, "")

    def _answer(self, call: Message, signature: str, *body: Any, fds: list[int] | None = None) -> None:
        """To whom: the bus knows, by the sender's name."""
        answer = Message(
            kind=wire.RETURN,
            destination=call.sender,
            reply_to=call.serial,
            signature=signature,
            body=body,
            fds=fds or [],
        )
        self._group.create_task(self._send(answer))

    async def _send(self, answer: Message) -> None:
        await self._bus.send(answer)
        for each in answer.fds:
            os.close(each)


@asynccontextmanager
async def system(folder: Path) -> AsyncIterator[tuple[str, System]]:
    """The address of the bus, and who answers there."""
    address = f"unix:path={folder / 'bus'}"
    daemon = await asyncio.create_subprocess_exec(
        "dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address", f"--address={address}",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert daemon.stdout is not None
        await daemon.stdout.readline()
        async with connected(address) as bus, asyncio.TaskGroup() as group:
            for name in (SERVICE, "org.freedesktop.systemd1"):
                await bus.own(name)
            found = System(bus, folder / "logind", group)
            try:
                yield address, found
            finally:
                found.close()
    finally:
        daemon.terminate()
        await daemon.wait()
