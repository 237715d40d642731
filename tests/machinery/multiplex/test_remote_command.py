"""Exec end to end, over every protocol, with a fake process."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.machinery.multiplex import remote_command
from sampan.machinery.multiplex import remote_command as command
from sampan.machinery.multiplex.channels import V5, WebSocketChannels
from sampan.machinery.multiplex.handshake import NegotiatedProtocol
from sampan.machinery.multiplex.remote_command import RemoteCommandOptions, parse_resizes
from sampan.machinery.multiplex.spdy import SpdyConnection
from sampan.machinery.multiplex.websocket import WebSocket
from sampan.machinery.multiplex.wire import Wire
from tests.input_cost import check_cost
from tests.machinery.multiplex.pairs import wires


class FakeProcess:
    """A process that writes its input in capitals to stdout and `!` to stderr, and exits when its input ends."""

    def __init__(self, code: int = 0) -> None:
        self._code = code
        self._output: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue()
        self.sizes: list[tuple[int, int]] = []
        self.resized = asyncio.Event()
        self.is_closed = False

    async def read(self) -> tuple[int, bytes] | None:
        return await self._output.get()

    async def write(self, data: bytes) -> None:
        self._output.put_nowait((1, data.upper()))
        self._output.put_nowait((2, b"!"))

    async def close_input(self) -> None:
        self._output.put_nowait(None)

    async def resize(self, width: int, height: int) -> None:
        self.sizes.append((width, height))
        self.resized.set()

    async def wait(self) -> int:
        return self._code

    async def close(self) -> None:
        self.is_closed = True


async def _serve(
    wire: Wire, agreement: NegotiatedProtocol, options: RemoteCommandOptions, process: FakeProcess
) -> None:
    async def start() -> FakeProcess:
        return process

    async with command.accept_streams(wire, agreement, options) as ends:
        await command.serve(ends, start, ["shout"])


ALL = RemoteCommandOptions(stdin=True, stdout=True, stderr=True)
TERMINAL = RemoteCommandOptions(stdin=True, stdout=True, tty=True)


async def _input(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@pytest.mark.parametrize("code", [0, 3])
async def test_v5_protocol_over_a_websocket(code: int) -> None:
    client_wire, server_wire = wires()
    process, streams = FakeProcess(code), {1: b"", 2: b""}

    def output(number: int, data: bytes) -> None:
        streams[number] += data

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(_serve(server_wire, NegotiatedProtocol(protocol=V5, is_websocket=True), ALL, process))
        socket = WebSocket(client_wire, is_server=False, protocol=V5)
        status = await remote_command.run_client(socket, output, stdin=_input(b"hello ", b"you"))
    assert (streams[1], streams[2][:1], remote_command.exit_code(status)) == (b"HELLO YOU", b"!", code)
    assert process.is_closed


def test_terminal_is_resized() -> None:
    async def main() -> None:
        client_wire, server_wire = wires()
        process = FakeProcess()

        async def sizes() -> AsyncIterator[tuple[int, int]]:
            yield 80, 24

        async def stdin() -> AsyncIterator[bytes]:
            await process.resized.wait()
            yield b"x"

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(
                _serve(server_wire, NegotiatedProtocol(protocol=V5, is_websocket=True), TERMINAL, process)
            )
            socket = WebSocket(client_wire, is_server=False, protocol=V5)
            await remote_command.run_client(socket, lambda *_: None, stdin=stdin(), sizes=sizes())
        assert process.sizes == [(80, 24)]

    asyncio.run(main())


@pytest.mark.parametrize("protocol", ["", "channel.k8s.io", "v4.channel.k8s.io"])
async def test_older_channel_protocols(protocol: str) -> None:
    """These protocols cannot signal the end of the input, so the client closes the connection."""

    client_wire, server_wire = wires()
    process = FakeProcess()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(_serve(server_wire, NegotiatedProtocol(protocol=protocol, is_websocket=True), ALL, process))
        socket = WebSocket(client_wire, is_server=False, protocol=protocol)
        async with WebSocketChannels(socket, 5) as channels:
            await channels.streams[0].write(b"hello")
            assert await channels.streams[1].read() == b"HELLO"
            assert await channels.streams[2].read() == b"!"
        await socket.close()
    assert process.is_closed


async def test_base64_channel_protocol() -> None:
    client_wire, server_wire = wires()
    agreement = NegotiatedProtocol(protocol="v4.base64.channel.k8s.io", is_websocket=True)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(_serve(server_wire, agreement, ALL, FakeProcess()))
        socket = WebSocket(client_wire, is_server=False)
        await socket.send(b"0" + base64.b64encode(b"hello"), 1)
        first, second = await socket.receive(), await socket.receive()
        assert first is not None
        assert second is not None
        assert (first.opcode, first.data) == (1, b"1")
        assert (second.opcode, second.data) == (1, b"1" + base64.b64encode(b"HELLO"))
        await socket.close()


@pytest.mark.parametrize(
    ("protocol", "code", "is_status"),
    [
        ("v4.channel.k8s.io", 0, lambda status: json.loads(status)["status"] == "Success"),
        ("v4.channel.k8s.io", 7, lambda status: json.loads(status)["details"]["causes"][0]["message"] == "7"),
        ("v2.channel.k8s.io", 0, lambda status: status == b""),
        (
            "v2.channel.k8s.io",
            7,
            lambda status: status.startswith(
                b"command terminated with non-zero exit code: error executing command [shout]"
            ),
        ),
    ],
)
async def test_spdy_protocols(protocol: str, code: int, is_status: Callable[[bytes], Any]) -> None:
    client_wire, server_wire = wires()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(
            _serve(server_wire, NegotiatedProtocol(protocol=protocol, is_websocket=False), ALL, FakeProcess(code))
        )
        async with SpdyConnection(client_wire, is_server=False) as client:
            streams = {name: await client.open({"streamType": name}) for name in ("error", "stdin", "stdout", "stderr")}
            await streams["stdin"].write(b"hello")
            await streams["stdin"].close()
            assert await streams["stdout"].read() == b"HELLO"
            status = b""
            while data := await streams["error"].read():
                status += data
            assert is_status(status)


async def test_a_command_that_cannot_start_is_reported() -> None:
    client_wire, server_wire = wires()

    async def start() -> FakeProcess:
        raise OSError("no such file")

    async def serve() -> None:
        async with command.accept_streams(server_wire, NegotiatedProtocol(protocol=V5, is_websocket=True), ALL) as ends:
            await command.serve(ends, start)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(serve())
        socket = WebSocket(client_wire, is_server=False, protocol=V5)
        status = await remote_command.run_client(socket, lambda *_: None)
    assert status["message"] == "Internal error occurred: error executing command in container: no such file"
    assert remote_command.exit_code(status) is None


async def test_process_is_closed_when_the_client_disconnects() -> None:
    client_wire, server_wire = wires()
    process = FakeProcess()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        task = group.create_task(_serve(server_wire, NegotiatedProtocol(protocol=V5, is_websocket=True), ALL, process))
        socket = WebSocket(client_wire, is_server=False, protocol=V5)
        await socket.receive()
        await client_wire.close()
        await task
    assert process.is_closed


@given(st.text(max_size=100))
def test_arbitrary_text_gives_only_valid_terminal_sizes(text: str) -> None:
    sizes, rest = parse_resizes(text)
    assert all(0 < width < 65536 and 0 < height < 65536 for width, height in sizes)
    assert len(rest) <= len(text)


def test_several_terminal_sizes_in_one_text() -> None:
    text = '{"Width":80,"Height":24}\n{"Width":1,"Height":2}{"Width":0,"Height":2}{"Wid'
    assert parse_resizes(text) == ([(80, 24), (1, 2)], '{"Wid')


@pytest.mark.parametrize("text", ["1 " * 50_000, "[]" * 50_000, "[" * 100_000, "9" * 100_000, " " * 100_000])
def test_cost_of_reading_terminal_sizes_is_bounded(text: str) -> None:
    check_cost(lambda: parse_resizes(text))
