"""Exec, attach and port forwarding: connections to the streaming URLs that the runtime returns, over SPDY, which every
runtime supports.

Each connection is owned by a task that lives as long as its stream; the parameter `begin` starts such tasks.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from sampan.api.semantics.pods import find_container
from sampan.api.types.core_v1 import Pod
from sampan.host.background_tasks import DetachedTasks
from sampan.machinery.multiplex import handshake, upgrade
from sampan.machinery.multiplex.channels import V4
from sampan.machinery.multiplex.handshake import DATA, ERROR, RESIZE
from sampan.machinery.multiplex.handshake import STDERR as STDERR_STREAM
from sampan.machinery.multiplex.handshake import STDIN as STDIN_STREAM
from sampan.machinery.multiplex.handshake import STDOUT as STDOUT_STREAM
from sampan.machinery.multiplex.port_forward import exchange_data
from sampan.machinery.multiplex.remote_command import exit_code
from sampan.machinery.multiplex.spdy import SpdyConnection, SpdyStream
from sampan.machinery.multiplex.wire import StreamWire, close_writer
from sampan.runtimes.contract import STDERR, STDOUT, ProcessStream, RuntimeFailure
from sampan.runtimes.cri.client import CriClient

Begin = Callable[[Coroutine[Any, Any, None]], object]
_TYPE = "streamType"
_CONNECT_TIMEOUT_S = 30.0
_MAX_QUEUED_OUTPUTS = 16


async def _open_wire(url: str, protocol: str) -> StreamWire:
    parts = urlsplit(url)
    secure = _make_unverified_context() if parts.scheme == "https" else None
    host, port = parts.hostname or "localhost", parts.port or (443 if secure else 80)
    reader, writer = await asyncio.open_connection(host, port, ssl=secure)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    try:
        wire, _ = await upgrade.open_spdy(reader, writer, target, [("Host", parts.netloc)], [protocol])
    except BaseException:
        await close_writer(writer)
        raise
    return wire


def _make_unverified_context() -> ssl.SSLContext:
    """Return a TLS context that does not verify certificates: that of the runtime is self-signed, and its URL comes
    from the trusted CRI socket."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class CriStream:
    """A process attached over a connection; see `contract.ProcessStream`. When the stream is closed, runtimes let the
    process of an exec continue: it only sees the end of its stdin."""

    def __init__(self, url: str, *, has_stdin: bool, has_tty: bool) -> None:
        self._url, self._has_stdin, self._has_tty = url, has_stdin, has_tty
        self._streams: dict[str, SpdyStream] = {}
        self._output: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue(_MAX_QUEUED_OUTPUTS)
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._is_over = False

    async def start(self, begin: Begin) -> None:
        """Connect to the streaming URL. Raise RuntimeFailure if that fails."""
        begin(self._run_connection())
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await asyncio.shield(self._begun)
        except (OSError, upgrade.NotUpgraded) as error:
            raise RuntimeFailure("StreamError", f"cannot connect to {urlsplit(self._url).netloc}: {error}") from None
        except BaseException:
            self._closing.set()
            raise

    async def _run_connection(self) -> None:
        try:
            wire = await _open_wire(self._url, V4)
            async with SpdyConnection(wire, is_server=False) as connection:
                await self._open(connection)
                self._begun.set_result(None)
                await self._relay()
        except (OSError, upgrade.NotUpgraded) as error:
            if not self._begun.done():
                self._begun.set_exception(error)
        finally:
            self._closing.set()
            if not self._begun.done():
                self._begun.cancel()

    async def _open(self, connection: SpdyConnection) -> None:
        kinds = [ERROR, STDIN_STREAM if self._has_stdin else "", STDOUT_STREAM]
        kinds += [RESIZE] if self._has_tty else [STDERR_STREAM]
        for kind in filter(None, kinds):
            self._streams[kind] = await connection.open({_TYPE: kind})

    async def _relay(self) -> None:
        """Relay the output of the process until the stream is closed, even if the output ends before."""
        async with asyncio.TaskGroup() as group:
            outputs = [group.create_task(self._collect(STDOUT_STREAM, STDOUT))]
            if STDERR_STREAM in self._streams:
                outputs.append(group.create_task(self._collect(STDERR_STREAM, STDERR)))
            ended = group.create_task(self._end_output(outputs))
            await self._closing.wait()
            for task in (*outputs, ended):
                task.cancel()

    async def _collect(self, kind: str, channel: int) -> None:
        with suppress(ConnectionError):
            while data := await self._streams[kind].read():
                await self._output.put((channel, data))

    async def _end_output(self, outputs: list[asyncio.Task[None]]) -> None:
        await asyncio.wait(outputs)
        await self._output.put(None)

    # -- ProcessStream -----------------------------------------------------------------------------------------------

    async def read(self) -> tuple[int, bytes] | None:
        if self._is_over:
            return None
        output = asyncio.ensure_future(self._output.get())
        closed = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait((output, closed), return_when=asyncio.FIRST_COMPLETED)
            piece = output.result() if output.done() else None
        finally:
            output.cancel()
            closed.cancel()
        self._is_over = piece is None
        return piece

    async def write(self, data: bytes) -> None:
        if (stream := self._streams.get(STDIN_STREAM)) is not None:
            with suppress(ConnectionError):
                await stream.write(data)

    async def close_input(self) -> None:
        if (stream := self._streams.get(STDIN_STREAM)) is not None:
            await stream.close()

    async def resize(self, width: int, height: int) -> None:
        if (stream := self._streams.get(RESIZE)) is not None:
            with suppress(ConnectionError):
                await stream.write(json.dumps({"Width": width, "Height": height}).encode())

    async def wait(self) -> int:
        """Return the exit code. Raise RuntimeFailure if the command could not be run."""
        while await self.read() is not None:
            pass
        status = b""
        with suppress(ConnectionError):
            while not self._closing.is_set() and (data := await self._streams[ERROR].read()):
                status += data
        return _code(status)

    async def close(self) -> None:
        self._closing.set()


def _code(message: bytes) -> int:
    if not message:
        return 0
    try:
        status = json.loads(message)
    except ValueError:
        status = {"message": message.decode("utf-8", "replace")}
    code = exit_code(status)
    if code is None:
        raise RuntimeFailure("ExecError", str(status.get("message", "")))
    return code


async def open_port_forward(url: str, port: int, begin: Begin) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a port through a port-forward URL. If nothing listens on the port, the connection succeeds and is
    closed afterwards."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    near, far = socket.socketpair()
    begin(_forward(url, port, far, ready))
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            await ready
        return await asyncio.open_connection(sock=near)
    except (OSError, upgrade.NotUpgraded) as error:
        near.close()
        raise RuntimeFailure("PortForward", f"cannot connect to port {port} of the pod: {error}") from None
    except BaseException:
        near.close()
        raise


async def _forward(url: str, port: int, end: socket.socket, ready: asyncio.Future[None]) -> None:
    reader, writer = await asyncio.open_connection(sock=end)
    try:
        wire = await _open_wire(url, handshake.PORT_FORWARD)
        async with SpdyConnection(wire, is_server=False) as connection:
            port_headers = {"port": str(port), "requestID": "0"}
            error = await connection.open({**port_headers, _TYPE: ERROR})
            await error.close()
            data = await connection.open({**port_headers, _TYPE: DATA})
            if not ready.done():
                ready.set_result(None)
            await exchange_data(data, reader, writer, ends_with_stream=True)
            await data.reset()
            await error.reset()
    except (OSError, upgrade.NotUpgraded) as failure:
        if not ready.done():
            ready.set_exception(failure)
    finally:
        if not ready.done():
            ready.cancel()
        await close_writer(writer)


class CriCommands:
    def __init__(self, *, client: CriClient, background: DetachedTasks) -> None:
        self._client, self._background = client, background

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
        stream = CriStream(response.url, has_stdin=has_stdin, has_tty=has_tty)
        await stream.start(self._background.start)
        return stream

    async def connect(self, sandbox: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        request = self._client.schema.PortForwardRequest(pod_sandbox_id=sandbox, port=[port])
        response = await self._client.runtime("PortForward", request, reason="PortForward")
        return await open_port_forward(response.url, port, self._background.start)


def get_stdin_and_tty(pod: Pod, name: str) -> tuple[bool, bool]:
    """Return whether the container has stdin, and whether it has a terminal."""
    container = find_container(pod.spec, name)
    return (bool(container.stdin), bool(container.tty)) if container is not None else (False, False)
