"""Shutdown inhibitor locks of systemd-logind over D-Bus (`pkg/kubelet/nodeshutdown/systemd`).

This module knows nothing of pods. dbus-fast is imported when the first connection is made: most nodes never make one.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sampan.host.clock import Clock
from sampan.machinery.extras import MissingExtra, require

if TYPE_CHECKING:
    from dbus_fast import Message
    from dbus_fast.aio import MessageBus

log = logging.getLogger(__name__)

SERVICE, PATH = "org.freedesktop.login1", "/org/freedesktop/login1"
INTERFACE = f"{SERVICE}.Manager"
SIGNAL = "PrepareForShutdown"
CONFIG_DIRECTORY = Path("/etc/systemd/logind.conf.d")
_CONFIG_FILE = "99-kubelet.conf"
_SYSTEMD = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
_DBUS = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
_SIGHUP = 1
_TIMEOUT_S = 25.0
"""Response timeout, measured by the event loop's clock."""
_DELAY_CHECKS, _FIRST_DELAY_CHECK_S = 5, 0.1
_RECONNECT_S = 1.0


class LogindError(Exception):
    """The bus is unavailable, or the called service returned an error."""


@asynccontextmanager
async def connect(address: str = "") -> AsyncIterator[MessageBus]:
    """Connect to the bus at `address`, by default the system bus. Raise LogindError if that fails."""
    try:
        require("dbus_fast")
    except MissingExtra as missing:
        raise LogindError(str(missing)) from None
    from dbus_fast import BusType, DBusFastError
    from dbus_fast.aio import MessageBus

    try:
        bus = MessageBus(bus_address=address or None, bus_type=BusType.SYSTEM, negotiate_unix_fd=True)
        async with asyncio.timeout(_TIMEOUT_S):
            await bus.connect()
    except (OSError, EOFError, DBusFastError) as error:
        raise LogindError(f"cannot connect to the system bus: {error or type(error).__name__}") from None
    try:
        yield bus
    finally:
        bus.disconnect()


class Logind:
    """The D-Bus interface of systemd-logind."""

    def __init__(self, bus: MessageBus, *, config_directory: Path = CONFIG_DIRECTORY) -> None:
        """`config_directory` is the drop-in directory of logind's configuration."""
        self._bus, self._config_directory = bus, config_directory

    async def max_delay_s(self) -> float:
        """Return the maximum time in seconds that an inhibitor lock may delay the shutdown."""
        properties = (SERVICE, PATH, "org.freedesktop.DBus.Properties")
        reply = await self._call(*properties, "Get", "ss", INTERFACE, "InhibitDelayMaxUSec")
        try:
            return float(reply.body[0].value) / 1e6
        except (AttributeError, LookupError, TypeError, ValueError):
            raise LogindError("the maximum delay of inhibitor locks is unknown") from None

    async def raise_max_delay(self, seconds: float) -> None:
        """Configure logind to allow a delay of this many seconds."""
        try:
            await asyncio.to_thread(self._write_config, seconds)
        except OSError as error:
            raise LogindError(f"cannot configure the maximum delay of inhibitor locks: {error}") from None
        await self._call(*_SYSTEMD, "KillUnit", "ssi", "systemd-logind.service", "all", _SIGHUP)

    def _write_config(self, seconds: float) -> None:
        self._config_directory.mkdir(parents=True, exist_ok=True)
        text = f"# Kubelet logind override\n[Login]\nInhibitDelayMaxSec={seconds:.0f}\n"
        (self._config_directory / _CONFIG_FILE).write_text(text)

    async def inhibit(self) -> int:
        """Take an inhibitor lock. It delays a shutdown until the returned file descriptor is closed."""
        why = "Kubelet needs time to handle node shutdown"
        reply = await self._call(SERVICE, PATH, INTERFACE, "Inhibit", "ssss", "shutdown", "kubelet", why, "delay")
        if not reply.unix_fds:
            raise LogindError("no inhibitor lock was granted")
        for extra in reply.unix_fds[1:]:
            os.close(extra)
        return int(reply.unix_fds[0])

    async def subscribe(self, listener: Callable[[bool], None]) -> None:
        """Call `listener` with True when the machine shuts down, and with False when the shutdown is cancelled."""

        def on_message(message: Message) -> None:
            if (message.interface, message.member) == (INTERFACE, SIGNAL) and message.body:
                listener(bool(message.body[0]))

        self._bus.add_message_handler(on_message)
        rule = f"type='signal',interface='{INTERFACE}',member='{SIGNAL}',path='{PATH}'"
        await self._call(*_DBUS, "AddMatch", "s", rule)

    async def _call(
        self, service: str, path: str, interface: str, member: str, signature: str = "", *values: object
    ) -> Message:
        """Call a D-Bus method and return the reply. Raise LogindError on errors. If a reply arrives after the timeout
        or after the caller was cancelled, its file descriptors are closed: otherwise an inhibitor lock would be held
        forever.
        """
        from dbus_fast import DBusFastError, Message, MessageType

        message = Message(
            destination=service, path=path, interface=interface, member=member, signature=signature, body=list(values)
        )
        pending = asyncio.ensure_future(self._bus.call(message))
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                reply = await asyncio.shield(pending)
        except TimeoutError:
            pending.add_done_callback(_close_descriptors)
            raise LogindError(f"{interface}.{member}: no reply") from None
        except asyncio.CancelledError:
            pending.add_done_callback(_close_descriptors)
            raise
        except (OSError, EOFError, DBusFastError) as error:
            raise LogindError(f"{interface}.{member}: {error or type(error).__name__}") from None
        if reply is None:
            raise LogindError(f"{interface}.{member}: the connection to the system bus was closed")
        if reply.message_type is MessageType.ERROR:
            raise LogindError(f"{interface}.{member}: {reply.error_name}: {' '.join(map(str, reply.body))}")
        return reply


def _close_descriptors(call: asyncio.Future[Any]) -> None:
    if not call.cancelled() and call.exception() is None and call.result() is not None:
        for descriptor in call.result().unix_fds:
            os.close(descriptor)


class ShutdownInhibitor:
    """Delays the shutdown of the machine until `on_shutdown` returns.

    `run()` runs until cancelled. Without logind it logs an error once and returns.
    """

    def __init__(
        self,
        *,
        delay_s: float,
        clock: Clock,
        on_shutdown: Callable[[], Awaitable[None]],
        on_cancel: Callable[[], None],
        address: str = "",
        config_directory: Path = CONFIG_DIRECTORY,
    ) -> None:
        self._delay_s, self._clock, self._address, self._config_directory = delay_s, clock, address, config_directory
        self._on_shutdown, self._on_cancel = on_shutdown, on_cancel
        self.ready = asyncio.Event()
        """Set while an inhibitor lock is held."""

    async def run(self) -> None:
        was_connected = False
        while True:
            try:
                async with connect(self._address) as bus:
                    await self._handle_shutdowns(bus)
            except LogindError as error:
                if not (was_connected or self.ready.is_set()):
                    log.error("graceful node shutdown is not available: %s", error)
                    return
                log.warning("cannot talk to systemd-logind: %s", error)
            was_connected = True
            self.ready.clear()
            await self._clock.sleep(_RECONNECT_S)

    async def _handle_shutdowns(self, bus: MessageBus) -> None:
        """Handle shutdowns until the connection ends. The signal is subscribed to before the lock is taken, so that
        none is missed, and the lock is released when the pods have terminated.
        """
        logind, signals = Logind(bus, config_directory=self._config_directory), asyncio.Queue[bool | None]()
        disconnected = asyncio.ensure_future(bus.wait_for_disconnect())
        disconnected.add_done_callback(lambda future: _on_disconnect(future, signals))
        lock = -1
        try:
            await self._ensure_max_delay(logind)
            await logind.subscribe(signals.put_nowait)
            lock = await logind.inhibit()
            self.ready.set()
            while (is_shutting_down := await signals.get()) is not None:
                if is_shutting_down:
                    await self._on_shutdown()
                    lock = _release(lock)
                else:
                    self._on_cancel()
                    lock = lock if lock >= 0 else await logind.inhibit()
        finally:
            disconnected.cancel()
            _release(lock)

    async def _ensure_max_delay(self, logind: Logind) -> None:
        if await logind.max_delay_s() >= self._delay_s:
            return
        await logind.raise_max_delay(self._delay_s)
        for number in range(_DELAY_CHECKS):
            if await logind.max_delay_s() >= self._delay_s:
                return
            await self._clock.sleep(_FIRST_DELAY_CHECK_S * 2**number)
        raise LogindError(f"logind does not allow a shutdown to be delayed by {self._delay_s:g} s")


def _on_disconnect(disconnected: asyncio.Future[None], signals: asyncio.Queue[bool | None]) -> None:
    if not disconnected.cancelled():
        disconnected.exception()  # How the connection ended does not matter; the exception counts as retrieved.
        signals.put_nowait(None)


def _release(lock: int) -> int:
    if lock >= 0:
        os.close(lock)
    return -1
