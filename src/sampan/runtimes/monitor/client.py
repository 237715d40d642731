"""The kubelet's client of the monitor."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sampan.host.linux import programs
from sampan.runtimes.contract import KILLED_CODE, STDERR, STDOUT, RuntimeFailure
from sampan.runtimes.monitor import protocol
from sampan.runtimes.monitor.__main__ import LOG, SOCKET
from sampan.runtimes.monitor.protocol import MonitorFrames

_READ = 256 << 10
_RESPONSE_TIMEOUT_S = 30.0

Ended = Callable[[dict[str, Any]], None]
"""A callback for the exit of a process; its argument has the keys id, pid, code and finished_at."""


class MonitorError(RuntimeFailure):
    def __init__(self, message: str) -> None:
        super().__init__("RunContainerError", message)


class OperationFailed(MonitorError):
    """The monitor responds that it cannot carry out the operation, such as starting a process."""


class MonitorClient:
    """A client of the monitor in `directory`, the directory with the monitor's socket; each node has its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._starting = asyncio.Lock()

    async def ensure(self) -> None:
        """Start the monitor unless it is running."""
        async with self._starting:
            with suppress(MonitorError):
                _, writer = await self._connect()
                writer.close()
                return
            await self._start()

    async def run(self, id: str, argv: Sequence[str], **request: Any) -> int:
        """Start a process, and return its pid. `process.MonitoredProcess` documents the fields of the request."""
        response = await self._ask({"do": "run", "id": id, "argv": list(argv), **request})
        return int(response["pid"])

    async def exec(self, id: str, argv: Sequence[str], **request: Any) -> MonitorStream:
        """Start a process that is killed when the stream is closed."""
        return await self._stream({"do": "run", "id": id, "argv": list(argv), "attach": True, **request}, KILLED_CODE)

    async def attach(self, id: str, *, has_stdin: bool = False) -> MonitorStream:
        """Connect to a process; see `contract.Runtime.attach`."""
        return await self._stream({"do": "attach", "id": id, "stdin": has_stdin})

    async def kill(self, id: str, signal: int, *, group: bool = False) -> None:
        await self._ask({"do": "kill", "id": id, "signal": signal, "group": group})

    async def forget(self, id: str) -> None:
        await self._ask({"do": "forget", "id": id})

    async def reopen_log(self, id: str) -> None:
        await self._ask({"do": "reopen", "id": id})

    async def list(self) -> list[dict[str, Any]]:
        processes: list[dict[str, Any]] = (await self._ask({"do": "list"}))["processes"]
        return processes

    async def quit(self, *, kill: bool = False) -> None:
        """Stop the monitor if it is running. With `kill` its processes are killed first."""
        with suppress(MonitorError):
            await self._ask({"do": "quit", "kill": kill})

    async def follow(self, ended: Ended) -> None:
        """Call `ended` for each exited process, including those that exited before the call. Return when the connection
        ends."""
        reader, writer = await self._connect()
        try:
            writer.write(protocol.message({"do": "events"}))
            async for kind, content in _frames(reader):
                value = json.loads(content) if kind == protocol.JSON else {}
                for actor in [value["ended"]] if "ended" in value else value.get("processes", ()):
                    if actor["code"] is not None:
                        ended(actor)
        finally:
            writer.close()

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        reader, writer = await self._connect()
        try:
            writer.write(protocol.message(request))
            async with asyncio.timeout(_RESPONSE_TIMEOUT_S):
                async for _, content in _frames(reader):
                    return _check_response(json.loads(content))
        except (TimeoutError, OSError) as error:
            raise MonitorError(f"the container monitor does not respond: {error or 'timeout'}") from None
        finally:
            writer.close()
        raise MonitorError("the container monitor has exited")

    async def _stream(self, request: dict[str, Any], code: int = 0) -> MonitorStream:
        reader, writer = await self._connect()
        writer.write(protocol.message(request))
        stream = MonitorStream(reader, writer, code)
        try:
            await stream.start()
        except BaseException:
            writer.close()
            raise
        return stream

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect through /proc/self/fd, as the path of a Unix socket is limited to about 100 bytes."""
        try:
            directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise MonitorError(f"cannot connect to the container monitor: {error.strerror}") from None
        try:
            return await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/{SOCKET}")
        except OSError as error:
            raise MonitorError(f"cannot connect to the container monitor: {error.strerror or error}") from None
        finally:
            os.close(directory)

    async def _start(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        result = await programs.run(sys.executable, "-E", "-m", "sampan.runtimes.monitor", str(self._directory))
        if result.code:
            log = self._directory / LOG
            raise MonitorError(f"cannot start the container monitor: {result.last_error_line} (see {log})")


class MonitorStream:
    """A process with attached streams; see `contract.ProcessStream`. `code` is the exit code if the connection is lost
    before the monitor sends one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, code: int) -> None:
        self._writer = writer
        self._frames = _frames(reader)
        self._early: list[tuple[int, bytes]] = []
        """Output that arrived before the response to the request."""
        self._code = code
        self._is_over = False

    async def start(self) -> None:
        """Wait until the process has started. Raise MonitorError if it fails to start."""
        async for kind, content in self._frames:
            if kind == protocol.JSON:
                _check_response(json.loads(content))
                return
            self._early.append((kind, content))
        raise MonitorError("the container monitor has exited")

    async def read(self) -> tuple[int, bytes] | None:
        if self._early:
            return self._early.pop(0)
        if self._is_over:
            return None
        async for kind, content in self._frames:
            if kind in (STDOUT, STDERR):
                return kind, content
            if kind == protocol.JSON:
                self._code = json.loads(content).get("code") or 0
                break
        self._is_over = True
        return None

    async def write(self, data: bytes) -> None:
        for index in range(0, len(data), _READ):
            self._writer.write(protocol.frame(protocol.STDIN, data[index : index + _READ]))
        with suppress(OSError):
            await self._writer.drain()

    async def close_input(self) -> None:
        self._writer.write(protocol.frame(protocol.END_OF_STDIN, b""))

    async def resize(self, width: int, height: int) -> None:
        self._writer.write(protocol.frame(protocol.RESIZE, json.dumps([width, height]).encode()))

    async def wait(self) -> int:
        while await self.read() is not None:
            pass
        return self._code

    async def close(self) -> None:
        self._writer.close()


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, bytes]]:
    frames = MonitorFrames()
    while True:
        try:
            data = await reader.read(_READ)
        except OSError:
            return
        if not data:
            return
        for frame in frames.feed(data):
            yield frame


def _check_response(response: dict[str, Any]) -> dict[str, Any]:
    if "error" in response:
        raise OperationFailed(str(response["error"]))
    return response
