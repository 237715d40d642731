"""Exec and attach streams of the Docker Engine. With a terminal they carry raw bytes, otherwise frames with an 8-byte
header that contains the channel and the length."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import struct
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from sampan.machinery.multiplex.wire import close_writer
from sampan.runtimes.contract import STDERR, STDOUT, ProcessStream, RuntimeFailure
from sampan.runtimes.docker.client import DockerClient, DockerError, Query, Streams

_READ = 64 << 10
_HEAD = 8

Resize = Callable[[int, int], Awaitable[None]]
_DETACH_KEYS = "ctrl-^,ctrl-\\,ctrl-^,ctrl-\\"
"""The key sequence with which a client detaches. The engine's default would intercept a control key that shells use."""
_MAX_EXIT_CODE_POLLS, _MAX_PID_POLLS, _POLL_INTERVAL_S = 500, 200, 0.01


class FrameSplitter:
    """Splits a multiplexed stream into frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        self._data += data
        pieces = []
        while len(self._data) >= _HEAD:
            channel, size = struct.unpack_from(">BxxxI", self._data)
            if len(self._data) < _HEAD + size:
                break
            pieces.append((STDERR if channel == STDERR else STDOUT, bytes(self._data[_HEAD : _HEAD + size])))
            del self._data[: _HEAD + size]
        return pieces


class DockerStream:
    """A process with attached streams; see `contract.ProcessStream`. `ended` returns the exit code of an exec after the
    end of the output; `given_up` is called if the stream is closed before the output ends."""

    def __init__(
        self,
        streams: Streams,
        *,
        has_stdin: bool,
        has_tty: bool,
        resize: Resize,
        ended: Callable[[], Awaitable[int]] | None = None,
        given_up: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._reader, self._writer = streams
        self._has_stdin, self._has_tty = has_stdin, has_tty
        self._resize, self._ended, self._given_up = resize, ended, given_up
        self._pieces = FrameSplitter()
        self._waiting: list[tuple[int, bytes]] = []
        self._is_over = False

    async def read(self) -> tuple[int, bytes] | None:
        while not self._waiting:
            if self._is_over or not (data := await self._read_piece()):
                self._is_over = True
                return None
            self._waiting = [(STDOUT, data)] if self._has_tty else self._pieces.feed(data)
        return self._waiting.pop(0)

    async def _read_piece(self) -> bytes:
        try:
            return await self._reader.read(_READ)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        if self._has_stdin and not self._writer.is_closing():
            with suppress(OSError):
                self._writer.write(data)
                await self._writer.drain()

    async def close_input(self) -> None:
        if self._has_stdin and self._writer.can_write_eof() and not self._writer.is_closing():
            with suppress(OSError):
                self._writer.write_eof()

    async def resize(self, width: int, height: int) -> None:
        if self._has_tty:
            await self._resize(width, height)

    async def wait(self) -> int:
        while await self.read() is not None:
            pass
        return await self._ended() if self._ended is not None else 0

    async def close(self) -> None:
        is_given_up, self._is_over = not self._is_over, True
        await close_writer(self._writer)
        if is_given_up and self._given_up is not None:
            await self._given_up()


class DockerCommands:
    def __init__(self, *, client: DockerClient) -> None:
        self._client = client

    async def exec(self, target: str, command: Sequence[str], *, has_stdin: bool, has_tty: bool) -> ProcessStream:
        body: dict[str, Any] = {"AttachStdin": has_stdin, "AttachStdout": True, "AttachStderr": True, "Tty": has_tty}
        body["DetachKeys"] = _DETACH_KEYS
        response = await self._client.post(f"/containers/{target}/exec", body={**body, "Cmd": list(command)})
        path = f"/exec/{response['Id']}"
        streams = await self._client.take_over(f"{path}/start", body={"Detach": False, "Tty": has_tty})

        async def resize(width: int, height: int) -> None:
            await self._resize(path, width, height)

        async def wait_for_exit() -> int:
            return await self._code(path)

        async def kill_process() -> None:
            await self._kill(path)

        return DockerStream(
            streams, has_stdin=has_stdin, has_tty=has_tty, resize=resize, ended=wait_for_exit, given_up=kill_process
        )

    async def attach(self, id: str, *, has_stdin: bool) -> ProcessStream:
        path = f"/containers/{id}"
        config = (await self._client.get(f"{path}/json"))["Config"]
        has_stdin, has_tty = has_stdin and bool(config["OpenStdin"]), bool(config["Tty"])
        query: Query = {"stream": 1, "stdin": int(has_stdin), "stdout": 1, "stderr": 1, "detachKeys": _DETACH_KEYS}
        streams = await self._client.take_over(f"{path}/attach", query)

        async def resize(width: int, height: int) -> None:
            await self._resize(path, width, height)

        return DockerStream(streams, has_stdin=has_stdin, has_tty=has_tty, resize=resize)

    async def _resize(self, place: str, width: int, height: int) -> None:
        with contextlib.suppress(DockerError):
            await self._client.post(f"{place}/resize", {"w": width, "h": height})

    async def _code(self, place: str) -> int:
        """Return the exit code of an exec. The output may end shortly before the engine notices that the process has
        exited, so ask several times."""
        for _ in range(_MAX_EXIT_CODE_POLLS):
            exec_state = await self._client.get(f"{place}/json")
            if not exec_state["Running"]:
                return int(exec_state["ExitCode"] or 0)
            await asyncio.sleep(_POLL_INTERVAL_S)
        raise RuntimeFailure("ExecError", "the command is still running, but its output was closed")

    async def _kill(self, place: str) -> None:
        """Kill the process of an exec by its pid on this machine, as the engine has no API for that. The pid may become
        known only shortly after the process has produced output."""
        with contextlib.suppress(DockerError, ProcessLookupError, PermissionError):
            for _ in range(_MAX_PID_POLLS):
                exec_state = await self._client.get(f"{place}/json")
                if exec_state["Running"] and exec_state["Pid"]:
                    os.kill(exec_state["Pid"], signal.SIGKILL)
                    return
                if exec_state["ExitCode"] is not None:
                    return
                await asyncio.sleep(_POLL_INTERVAL_S)
