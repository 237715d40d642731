"""Finding drivers: they put a socket into the kubelet's folder, are asked there who they are, and told the outcome."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from sampan.kubelet.volumes.contract import VolumeFault
from sampan.kubelet.volumes.csi import wire
from sampan.kubelet.volumes.csi.client import Driver, Drivers
from sampan.kubelet.volumes.csi.node_info import NodeInfos
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed
from sampan.machinery.clock import Clock

log = logging.getLogger(__name__)

_TYPE = "CSIPlugin"
_PERIOD_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 120.0


class Socket(NamedTuple):
    path: str
    made: tuple[int, int]
    """Tells one from another that was put in its place."""


class _Trouble(NamedTuple):
    again_at: float
    pause_s: float


class Registration:
    def __init__(
        self, *, folder: Path, drivers: Drivers, infos: NodeInfos, clock: Clock, on_driver: Callable[[str], None]
    ) -> None:
        """`on_driver` is told of each that is new."""
        self._folder, self._drivers, self._infos, self._clock = folder, drivers, infos, clock
        self._on_driver = on_driver
        self._known: dict[Socket, str] = {}
        """The name of the driver at each socket."""
        self._troubles: dict[Socket, _Trouble] = {}

    async def run(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        while True:
            await self.look()
            await self._clock.sleep(_PERIOD_S)

    async def look(self) -> None:
        """Once. A look at a folder in which nothing has happened costs next to nothing."""
        found = set(sockets(self._folder))
        for socket in set(self._known) - found:
            await self._gone(socket)
        for socket in set(self._troubles) - found:
            del self._troubles[socket]
        for socket in sorted(found - set(self._known)):
            trouble = self._troubles.get(socket)
            if trouble is None or self._clock.now() >= trouble.again_at:
                await self._try(socket)

    async def _try(self, socket: Socket) -> None:
        try:
            await self._register(socket)
            self._troubles.pop(socket, None)
        except (VolumeFault, errors.ApiError, ConnectionFailed) as fault:
            if socket in self._known:
                log.warning("CSI driver %s cannot be told that it is registered: %s", self._known[socket], fault)
                return
            before = self._troubles.get(socket)
            pause_s = min(before.pause_s * 2, _LONGEST_PAUSE_S) if before is not None else _FIRST_PAUSE_S
            self._troubles[socket] = _Trouble(self._clock.now() + pause_s, pause_s)
            log.warning("the plug-in at %s is not registered: %s", socket.path, fault)

    async def _register(self, socket: Socket) -> None:
        schema, path = wire.registration(), socket.path
        info = await wire.call(path, schema, "Registration", "GetInfo", schema.InfoRequest(), timeout_s=10)
        fault = refusal(info.type, info.name, list(info.supported_versions), path)
        if not fault:
            fault = await self._install(info.name, info.endpoint or path)
        if not fault:
            # Known before it is told: one that ends while it hears so has to be taken off again.
            self._known[socket] = str(info.name)
            log.info("CSI driver %s is registered", info.name)
            self._on_driver(info.name)
        status = schema.RegistrationStatus(plugin_registered=not fault, error=fault)
        await wire.call(path, schema, "Registration", "NotifyRegistrationStatus", status, timeout_s=10)
        if fault:
            raise VolumeFault(fault)

    async def _install(self, name: str, endpoint: str) -> str:
        """Why it cannot be, if so."""
        driver = Driver(name, endpoint)
        try:
            await self._infos.install(name, await driver.info())
        except (VolumeFault, errors.ApiError, ConnectionFailed) as fault:
            return f"RegisterPlugin error -- plugin registration failed with err: {fault}"
        self._drivers.add(driver)
        return ""

    async def _gone(self, socket: Socket) -> None:
        name = self._known.pop(socket)
        if name in self._known.values():
            return
        self._drivers.remove(name)
        try:
            await self._infos.uninstall(name)
        except (errors.ApiError, ConnectionFailed) as fault:
            log.warning("CSI driver %s is gone, but the node cannot be told: %s", name, fault)


def refusal(type: str, name: str, versions: list[str], path: str) -> str:
    """Why a plug-in cannot be registered, if so. Pure."""
    if type != _TYPE:
        return f"RegisterPlugin error -- no handler registered for plugin type: {type} at socket {path}"
    why = ""
    if not versions:
        why = f'kubernetes.io/csi: ValidatePlugin for CSI driver "{name}" failed. Plugin returned an empty list'
        why += " for supported versions"
    elif not any(version.lstrip("v").startswith("1.") for version in versions):
        why = f'kubernetes.io/csi: ValidatePlugin for CSI driver "{name}" failed. None of the versions specified'
        why += f" {versions} are supported"
    if not why:
        return ""
    return f"RegisterPlugin error -- plugin validation failed with err: validation failed for CSI Driver {name}: {why}"


def sockets(folder: Path) -> Iterator[Socket]:
    """In the folder and below, but for hidden ones."""
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(found.st_mode):
            yield from sockets(Path(entry.path))
        elif stat.S_ISSOCK(found.st_mode):
            yield Socket(entry.path, (found.st_ino, found.st_ctime_ns))


__all__ = ["Registration", "Socket", "refusal", "sockets"]
