"""Bodies of requests: their end, and encodings that are refused."""

from __future__ import annotations

import asyncio

import pytest

from sampan.host.http.body import MAX_BUFFERED_BYTES, BadBody, ChunkDecoder, IncomingBytes, LengthDecoder
from tests.machinery.multiplex.pairs import cut


def decode(data: bytes, size: int) -> tuple[bytes, bytes | None]:
    """Decode a chunked body that arrives in pieces of a size, up to its end."""
    decoder, content = ChunkDecoder(), b""
    position = 0
    for piece in cut(data, [size]):
        position += len(piece)
        part, surplus = decoder.decode(piece)
        content += part
        if surplus is not None:
            return content, surplus + data[position:]
    return content, None


SIZES = pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])


@SIZES
@pytest.mark.parametrize(
    ("data", "content"),
    [
        (b"0\r\n\r\n", b""),
        (b"2\r\n{}\r\n0\r\n\r\n", b"{}"),
        (b"1\r\n{\r\n1\r\n}\r\n0000\r\n\r\n", b"{}"),
        (b"0000000A\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
        (b"2;name=value\r\n\r\n\r\n0;x\r\n\r\n", b"\r\n"),
        (b'2;name="\\""\r\n{}\r\n0\r\nX-Trailer: x\r\nY:\r\n\r\n', b"{}"),
    ],
)
def test_chunked_body_is_decoded_up_to_its_end(data: bytes, content: bytes, size: int) -> None:
    assert decode(data + b"GET /", size) == (content, b"GET /")
    for end in range(len(data)):
        assert decode(data[:end], size)[1] is None


@SIZES
@pytest.mark.parametrize(
    "data",
    [
        b"zz\r\n{}\r\n0\r\n\r\n",
        b"\r\n\r\n",
        b"-1\r\n",
        b"+2\r\n{}\r\n",
        b"0x2\r\n{}\r\n",
        b"2 \r\n{}\r\n",
        b" 2\r\n{}\r\n",
        b"2\n{}\n0\n\n",
        b"2\r\n{}0\r\n\r\n",
        b"2\r\n{}\n0\r\n\r\n",
        b"2;\x00\r\n{}\r\n0\r\n\r\n",
        b"2;a\nb\r\n{}\r\n0\r\n\r\n",
        b"FFFFFFFFFFFFFFFFF\r\n",
        b"FFFFFFFFFFFFFFFF\r\n",
        b"2;" + b"x" * 5000 + b"\r\n{}\r\n0\r\n\r\n",
        b"0\r\nContent-Length: 5\r\n\r\n",
        b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"0\r\nno colon\r\n\r\n",
        b"0\r\n folded: x\r\n\r\n",
        b"0\r\n" + b"a: b\r\n" * 5000 + b"\r\n",
    ],
)
def test_malformed_chunks_are_refused(data: bytes, size: int) -> None:
    with pytest.raises(BadBody):
        decode(data, size)


def test_many_extensions_together_are_refused() -> None:
    with pytest.raises(BadBody):
        decode((b"1;" + b"x" * 4000 + b"\r\na\r\n") * 20, 1000)


@SIZES
def test_body_with_a_length_ends_after_its_bytes(size: int) -> None:
    decoder, content = LengthDecoder(10), b""
    for piece in cut(b"0123456789GET /", [size]):
        part, surplus = decoder.decode(piece)
        content += part
        if surplus is not None:
            break
    assert content == b"0123456789"
    assert surplus is not None
    assert b"GET /".startswith(surplus)


async def test_incoming_bytes_pause_the_sender_until_they_are_read() -> None:
    calls: list[str] = []
    incoming = IncomingBytes(lambda: calls.append("pause"), lambda: calls.append("resume"))
    incoming.feed(b"x" * MAX_BUFFERED_BYTES)
    assert calls == []
    incoming.feed(b"xx")
    assert calls == ["pause"]
    assert len(await incoming.read()) == MAX_BUFFERED_BYTES + 2
    assert calls == ["pause", "resume"]
    reading = asyncio.create_task(incoming.read())
    await asyncio.sleep(0)
    incoming.feed(b"more")
    assert await reading == b"more"
    incoming.end(BadBody("broken"))
    with pytest.raises(BadBody, match="broken"):
        await incoming.read()
