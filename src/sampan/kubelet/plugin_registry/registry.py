"""Discovers plugins by their sockets in the kubelet's directory, asks for their identity and notifies them of the
outcome.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sampan.host.clock import Clock
from sampan.kubelet.plugin_registry import calls
from sampan.kubelet.plugin_registry.calls import RpcError

if TYPE_CHECKING:
    from sampan.machinery.proto import ProtoSchema

log = logging.getLogger(__name__)

_PERIOD_S = 1.0
_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 120.0
_TIMEOUT_S = 10.0
_FAILED = "RegisterPlugin error --"


class PluginError(Exception):
    """The plugin cannot be used; the message says why."""


class PluginHandler(Protocol):
    """Receiver of the plugins of one type."""

    def check(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Raise PluginError if the plugin is not supported."""

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Register the plugin. Raise PluginError if it cannot be registered now."""

    async def deregister(self, name: str, endpoint: str) -> None:
        """Remove a plugin that is gone. Another endpoint of the same name may still be registered."""


class PluginSocket(NamedTuple):
    path: str
    identity: tuple[int, int]
    """Inode and change time, which distinguish a socket from its replacement at the same path."""


class _RegisteredPlugin(NamedTuple):
    type: str
    name: str
    endpoint: str


class _RegistrationRetry(NamedTuple):
    again_at: float
    pause_s: float


class PluginRegistry:
    def __init__(self, *, directory: Path, handlers: Mapping[str, PluginHandler], clock: Clock) -> None:
        """`handlers` are keyed by plugin type."""
        self._directory, self._handlers, self._clock = directory, handlers, clock
        self._registered: dict[PluginSocket, _RegisteredPlugin] = {}
        self._retries: dict[PluginSocket, _RegistrationRetry] = {}

    async def run(self) -> None:
        while True:
            try:
                self._directory.mkdir(parents=True, exist_ok=True)
                await self.scan()
            except OSError as error:
                log.warning("cannot scan the plugin directory: %s", error)
            await self._clock.sleep(_PERIOD_S)

    async def scan(self) -> None:
        """Scan the directory once. This is cheap if nothing has changed. Raise OSError if the directory
        cannot be read.
        """
        current_sockets = set(sockets(self._directory))
        for socket in set(self._registered) - current_sockets:
            plugin = self._registered.pop(socket)
            log.info("%s %s at %s was deregistered: its socket is gone", plugin.type, plugin.name, socket.path)
            await self._deregister(plugin)
        for socket in set(self._retries) - current_sockets:
            del self._retries[socket]
        # Register concurrently, so that an unresponsive plugin does not delay the others.
        async with asyncio.TaskGroup() as group:
            for socket in sorted(current_sockets - set(self._registered)):
                retry = self._retries.get(socket)
                if retry is None or self._clock.monotonic() >= retry.again_at:
                    group.create_task(self._try(socket))

    async def _deregister(self, plugin: _RegisteredPlugin) -> None:
        try:
            await self._handlers[plugin.type].deregister(plugin.name, plugin.endpoint)
        except Exception:
            log.exception("cannot finish the deregistration of %s %s", plugin.type, plugin.name)

    async def _try(self, socket: PluginSocket) -> None:
        try:
            await self._register(socket)
            self._retries.pop(socket, None)
        except (PluginError, RpcError) as error:
            if socket in self._registered:
                log.warning("cannot notify plugin %s of its registration: %s", self._registered[socket].name, error)
                return
            self._wait(socket)
            log.warning("cannot register the plugin at %s: %s", socket.path, error)
        except Exception:
            self._wait(socket)
            log.exception("cannot register the plugin at %s", socket.path)

    def _wait(self, socket: PluginSocket) -> None:
        before = self._retries.get(socket)
        pause_s = min(before.pause_s * 2, _MAX_PAUSE_S) if before is not None else _FIRST_PAUSE_S
        self._retries[socket] = _RegistrationRetry(self._clock.monotonic() + pause_s, pause_s)

    async def _register(self, socket: PluginSocket) -> None:
        schema = proto()
        info = await calls.call(
            socket.path, schema, "Registration", "GetInfo", schema.InfoRequest(), timeout_s=_TIMEOUT_S
        )
        plugin = _RegisteredPlugin(str(info.type), str(info.name), str(info.endpoint or socket.path))
        error = await self._install(socket, plugin, list(info.supported_versions))
        if not error:
            # Recorded before the plugin is notified: if it exits during the notification, it must be deregistered.
            self._registered[socket] = plugin
            log.info("registered %s %s", plugin.type, plugin.name)
        status = schema.RegistrationStatus(plugin_registered=not error, error=error)
        await calls.call(socket.path, schema, "Registration", "NotifyRegistrationStatus", status, timeout_s=_TIMEOUT_S)
        if error:
            raise PluginError(error)

    async def _install(self, socket: PluginSocket, plugin: _RegisteredPlugin, versions: Sequence[str]) -> str:
        """Pass the plugin to its handler. Return the error, or an empty string on success."""
        handler = self._handlers.get(plugin.type)
        if handler is None:
            return f"{_FAILED} no handler registered for plugin type: {plugin.type} at socket {socket.path}"
        try:
            handler.check(plugin.name, plugin.endpoint, versions)
        except PluginError as error:
            return f"{_FAILED} plugin validation failed with err: {error}"
        try:
            await handler.register(plugin.name, plugin.endpoint, versions)
        except PluginError as error:
            return f"{_FAILED} plugin registration failed with err: {error}"
        return ""


def proto() -> ProtoSchema:
    return calls.read_schema(Path(__file__).parent / "registration.proto")


def sockets(directory: Path) -> Iterator[PluginSocket]:
    """Yield the sockets in the directory and below it, except those with hidden names."""
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(status.st_mode):
            yield from sockets(Path(entry.path))
        elif stat.S_ISSOCK(status.st_mode):
            yield PluginSocket(entry.path, (status.st_ino, status.st_ctime_ns))
