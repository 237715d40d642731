"""Exec and attach through the Docker Engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from typing import Any

from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.docker.client import DockerClient, DockerError, Query
from sampan.runtimes.docker.streaming import DockerStream
from sampan.runtimes.streams import ProcessStream

_DETACH_KEYS = "ctrl-^,ctrl-\\,ctrl-^,ctrl-\\"
"""The key sequence to detach. The engine's default would intercept a control key that shells use."""
_CODE_LOOKS, _PID_LOOKS, _LOOK_AGAIN_S = 500, 200, 0.01
_END_S = 10.0


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

        async def ended() -> int:
            return await self._code(path)

        async def given_up() -> None:
            await self._kill(path)

        return DockerStream(
            streams, has_stdin=has_stdin, has_tty=has_tty, resize=resize, ended=ended, given_up=given_up
        )

    async def attach(self, id: str) -> ProcessStream:
        path = f"/containers/{id}"
        about = (await self._client.get(f"{path}/json"))["Config"]
        has_stdin, has_tty = bool(about["OpenStdin"]), bool(about["Tty"])
        query: Query = {"stream": 1, "stdin": int(has_stdin), "stdout": 1, "stderr": 1, "detachKeys": _DETACH_KEYS}
        streams = await self._client.take_over(f"{path}/attach", query)

        async def resize(width: int, height: int) -> None:
            await self._resize(path, width, height)

        async def ended() -> int:
            return int((await self._client.post(f"{path}/wait", timeout_s=_END_S))["StatusCode"])

        return DockerStream(streams, has_stdin=has_stdin, has_tty=has_tty, resize=resize, ended=ended)

    async def _resize(self, place: str, width: int, height: int) -> None:
        with contextlib.suppress(DockerError):
            await self._client.post(f"{place}/resize", {"w": width, "h": height})

    async def _code(self, place: str) -> int:
        """Return the exit code. The output may end shortly before the engine notices that the process has exited."""
        for _ in range(_CODE_LOOKS):
            about = await self._client.get(f"{place}/json")
            if not about["Running"]:
                return int(about["ExitCode"] or 0)
            await asyncio.sleep(_LOOK_AGAIN_S)
        raise RuntimeFailure("ExecError", "the command is still running, but its output was closed")

    async def _kill(self, place: str) -> None:
        """Kill the process of an exec by its pid on this machine, as the engine has no API for that. The pid may become
        known only shortly after the process has produced output."""
        with contextlib.suppress(DockerError, ProcessLookupError, PermissionError):
            for _ in range(_PID_LOOKS):
                about = await self._client.get(f"{place}/json")
                if about["Running"] and about["Pid"]:
                    os.kill(about["Pid"], signal.SIGKILL)
                    return
                if about["ExitCode"] is not None:
                    return
                await asyncio.sleep(_LOOK_AGAIN_S)
