"""Exec, attach and port forwarding through the streaming URLs that the runtime returns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sampan.api.semantics.pods import find_container
from sampan.api.types.core_v1 import Pod
from sampan.runtimes import contract
from sampan.runtimes.background import Background
from sampan.runtimes.cri import conversions
from sampan.runtimes.cri.client import CriClient
from sampan.runtimes.cri.streaming import AttachedStream, CriStream, connected
from sampan.runtimes.cri.view import CriView
from sampan.runtimes.streams import ProcessStream

_UNKNOWN_CODE = 255
_LOOKS, _LOOK_AGAIN_S = 400, 0.025


class CriCommands:
    def __init__(self, *, client: CriClient, view: CriView, background: Background) -> None:
        self._client, self._view, self._background = client, view, background

    async def exec(self, id: str, command: Sequence[str], *, has_stdin: bool, has_tty: bool) -> ProcessStream:
        request = self._client.schema.ExecRequest(
            container_id=id, cmd=command, tty=has_tty, stdin=has_stdin, stdout=True, stderr=not has_tty
        )
        response = await self._client.runtime("Exec", request)
        stream = CriStream(response.url, has_stdin=has_stdin, has_tty=has_tty)
        await stream.start(self._background.start)
        return stream

    async def attach(self, id: str, *, has_stdin: bool, has_tty: bool) -> ProcessStream:
        request = self._client.schema.AttachRequest(
            container_id=id, stdin=has_stdin, tty=has_tty, stdout=True, stderr=not has_tty
        )
        response = await self._client.runtime("Attach", request)

        async def ended() -> int:
            return await self._exit_code(id)

        stream = AttachedStream(response.url, has_stdin=has_stdin, has_tty=has_tty, ended=ended)
        await stream.start(self._background.start)
        return stream

    async def _exit_code(self, id: str) -> int:
        """Return the exit code of a container, waiting for a while, as its output may end shortly before the runtime
        notices its exit. Return 0 if the container keeps running."""
        for _ in range(_LOOKS):
            status = await self._view.status(id)
            if status is None or conversions.state(status.state) == contract.EXITED:
                return int(status.exit_code) if status is not None else _UNKNOWN_CODE
            await asyncio.sleep(_LOOK_AGAIN_S)
        return 0

    async def connect(self, sandbox: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        request = self._client.schema.PortForwardRequest(pod_sandbox_id=sandbox, port=[port])
        response = await self._client.runtime("PortForward", request, reason="PortForward")
        return await connected(response.url, port, self._background.start)


def terminal(pod: Pod, name: str) -> tuple[bool, bool]:
    """Return whether the container has stdin, and whether it has a terminal."""
    container = find_container(pod.spec, name)
    return (bool(container.stdin), bool(container.tty)) if container is not None else (False, False)
