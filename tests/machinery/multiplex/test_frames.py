"""The framings, fed with everything that a peer may send."""

import contextlib
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.machinery.multiplex import spdy_frames, upgrade, websocket_frames
from sampan.machinery.multiplex.remote_command import resizes
from tests.input_cost import check_cost

_texts = st.text(st.characters(codec="utf-8"), max_size=20)
_cuts = st.lists(st.integers(1, 50), min_size=1)


def _pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    pieces: list[bytes] = []
    at = 0
    while at < len(data):
        size = cuts[len(pieces) % len(cuts)]
        pieces.append(data[at : at + size])
        at += size
    return pieces


@given(st.lists(st.tuples(st.sampled_from([1, 2, 9]), st.binary(max_size=120))), _cuts, st.booleans())
def test_messages_of_a_websocket_arrive_as_they_were_sent(
    sent: list[tuple[int, bytes]], cuts: list[int], is_server: bool
) -> None:
    data = b"".join(websocket_frames.frame(opcode, payload, is_masked=is_server) for opcode, payload in sent)
    frames = websocket_frames.WebSocketFrames(is_server=is_server)
    messages = [message for piece in _pieces(data, cuts) for message in frames.feed(piece)]
    assert [(message.opcode, message.data) for message in messages] == sent


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536, 200_000])
def test_messages_of_any_length(size: int) -> None:
    data = bytes(size)
    (message,) = websocket_frames.WebSocketFrames(is_server=True).feed(websocket_frames.frame(2, data, is_masked=True))
    assert message.data == data


def test_a_message_in_parts_with_a_ping_between_them() -> None:
    parts = [b"\x01\x02he", b"\x89\x01!", b"\x00\x01l", b"\x80\x02lo"]
    messages = websocket_frames.WebSocketFrames(is_server=False).feed(b"".join(parts))
    assert [(message.opcode, message.data) for message in messages] == [(9, b"!"), (1, b"hello")]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x82\x01a", id="not masked"),
        pytest.param(b"\xc2\x81abcda", id="reserved bits"),
        pytest.param(b"\x83\x80abcd", id="unknown kind"),
        pytest.param(b"\x09\x80abcd", id="ping in parts"),
        pytest.param(b"\x80\x80abcd", id="nothing to continue"),
        pytest.param(b"\x02\x80abcd\x02\x80abcd", id="a message within another"),
        pytest.param(b"\x82\xff" + b"\x7f" * 8, id="too large"),
    ],
)
def test_what_is_no_frame_of_a_websocket(data: bytes) -> None:
    with pytest.raises(websocket_frames.BadWebSocketFrame):
        websocket_frames.WebSocketFrames(is_server=True).feed(data)


@given(st.binary(max_size=200), _cuts)
def test_any_bytes_are_frames_of_a_websocket_or_bad(data: bytes, cuts: list[int]) -> None:
    frames = websocket_frames.WebSocketFrames(is_server=True)
    try:
        for piece in _pieces(data, cuts):
            frames.feed(piece)
    except websocket_frames.BadWebSocketFrame:
        pass


_headers = st.dictionaries(_texts.map(str.lower).filter(lambda text: text == text.lower()), _texts, max_size=5)


@given(st.lists(st.tuples(st.integers(1, 1 << 20), _headers, st.binary(max_size=100), st.booleans())), _cuts)
def test_frames_of_spdy_arrive_as_they_were_sent(
    sent: list[tuple[int, dict[str, str], bytes, bool]], cuts: list[int]
) -> None:
    writer, reader, data = spdy_frames.Writer(), spdy_frames.Reader(), b""
    for stream, headers, content, is_last in sent:
        data += writer.syn_stream(stream, headers, is_last=is_last) + writer.data(stream, content, is_last=is_last)
        data += writer.syn_reply(stream, headers) + writer.rst_stream(stream, 5) + writer.ping(stream)
        data += writer.goaway(stream, 1)
    frames = [frame for piece in _pieces(data, cuts) for frame in reader.feed(piece)]
    assert len(frames) == 6 * len(sent)
    for at, (stream, headers, content, is_last) in enumerate(sent):
        opened, frame, reply, reset, ping, goaway = frames[6 * at : 6 * at + 6]
        assert (opened.kind, opened.stream, opened.headers, opened.is_last) == (1, stream, headers, is_last)
        assert (frame.kind, frame.stream, frame.data, frame.is_last) == (0, stream, content, is_last)
        assert (reply.kind, reply.headers) == (2, headers)
        assert (reset.kind, reset.status, ping.kind, ping.stream) == (3, 5, 6, stream)
        assert (goaway.kind, goaway.stream, goaway.status) == (7, stream, 1)


@given(st.integers(0, 12), st.integers(0, 255), st.binary(max_size=100), st.binary(max_size=100))
def test_any_bytes_are_frames_of_spdy_or_bad(kind: int, flags: int, content: bytes, rest: bytes) -> None:
    head = struct.pack(">HHI", 0x8003, kind, flags << 24 | len(content))
    with contextlib.suppress(spdy_frames.BadSpdyFrame):
        spdy_frames.Reader().feed(head + content + rest)


def test_the_dictionary_is_that_of_the_protocol() -> None:
    assert (len(spdy_frames.DICTIONARY), zlib.adler32(spdy_frames.DICTIONARY)) == (1423, 0xE3C6A7C2)


_SIZE = 100_000
_EXPENSIVE_FOR_WEBSOCKET = {
    "empty parts": b"\x02\x80abcd" + b"\x00\x80abcd" * (_SIZE // 6),
    "small parts": b"\x02\x80abcd" + b"\x00\x81abcdx" * (_SIZE // 7),
    "pings": b"\x89\x80abcd" * (_SIZE // 6),
    "small messages": b"\x82\x81abcdx" * (_SIZE // 7),
    "a length that never comes": b"\x82\xff" + struct.pack(">Q", websocket_frames.MOST) + b"abcd" + bytes(_SIZE),
}


@pytest.mark.parametrize("name", _EXPENSIVE_FOR_WEBSOCKET)
@pytest.mark.parametrize("piece", [1, 1000, _SIZE], ids=["byte by byte", "in pieces", "at once"])
def test_no_bytes_are_expensive_for_a_websocket(name: str, piece: int) -> None:
    data = _EXPENSIVE_FOR_WEBSOCKET[name]

    def feed() -> None:
        frames = websocket_frames.WebSocketFrames(is_server=True)
        for at in range(0, len(data), piece):
            frames.feed(data[at : at + piece])

    check_cost(feed)


def test_small_parts_of_a_message_take_up_no_more_than_their_bytes() -> None:
    frames = websocket_frames.WebSocketFrames(is_server=False)
    frames.feed(b"\x02\x00")
    tracemalloc.start()
    try:
        for _ in range(100):
            frames.feed(b"\x00\x01x\x00\x00" * 1000)
        ours = tracemalloc.Filter(True, websocket_frames.__file__)
        held = tracemalloc.take_snapshot().filter_traces([ours]).statistics("filename")
        assert sum(statistic.size for statistic in held) < 200_000
    finally:
        tracemalloc.stop()


def _bombs(size: int) -> bytes:
    """As many streams as fit, with headers that become as long as they may."""
    deflate, data, stream = zlib.compressobj(9, zdict=spdy_frames.DICTIONARY), b"", 1
    while len(data) < size:
        raw = struct.pack(">III", 1, 1, 0x61000000)[:9] + struct.pack(">I", 16_000) + bytes(16_000)
        content = struct.pack(">IIH", stream, 0, 0) + deflate.compress(raw) + deflate.flush(zlib.Z_SYNC_FLUSH)
        data += struct.pack(">HHI", 0x8003, 1, len(content)) + content
        stream += 2
    return data


_EXPENSIVE_FOR_SPDY = {
    "bombs": _bombs(_SIZE),
    "pings": spdy_frames.Writer().ping(1) * (_SIZE // 12),
    "empty data": spdy_frames.Writer().data(1, b"") * (_SIZE // 8),
    "farewells": spdy_frames.Writer().goaway(1) * (_SIZE // 16),
}


@pytest.mark.parametrize("name", _EXPENSIVE_FOR_SPDY)
@pytest.mark.parametrize("piece", [100, _SIZE], ids=["in pieces", "at once"])
def test_no_bytes_are_expensive_for_spdy(name: str, piece: int) -> None:
    data = _EXPENSIVE_FOR_SPDY[name]

    def feed() -> None:
        reader = spdy_frames.Reader()
        for at in range(0, len(data), piece):
            reader.feed(data[at : at + piece])

    check_cost(feed)


@pytest.mark.parametrize("text", ["1 " * 50_000, "[]" * 50_000, "[" * 100_000, "9" * 100_000, " " * 100_000])
def test_no_text_is_expensive_as_sizes(text: str) -> None:
    check_cost(lambda: resizes(text))


def test_headers_that_are_a_bomb() -> None:
    deflate = zlib.compressobj(zdict=spdy_frames.DICTIONARY)
    block = deflate.compress(bytes(8 << 20)) + deflate.flush(zlib.Z_SYNC_FLUSH)
    content = struct.pack(">IIH", 1, 0, 0) + block
    with pytest.raises(spdy_frames.BadSpdyFrame, match="too long"):
        spdy_frames.Reader().feed(struct.pack(">HHI", 0x8003, 1, len(content)) + content)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_head_or_bad(data: bytes) -> None:
    with contextlib.suppress(upgrade.BadResponse):
        upgrade.parsed(data)


@given(st.text(max_size=100))
def test_any_text_is_sizes_or_not(text: str) -> None:
    sizes, rest = resizes(text)
    assert all(0 < width < 65536 and 0 < height < 65536 for width, height in sizes)
    assert len(rest) <= len(text)


def test_sizes_one_after_the_other() -> None:
    text = '{"Width":80,"Height":24}\n{"Width":1,"Height":2}{"Width":0,"Height":2}{"Wid'
    assert resizes(text) == ([(80, 24), (1, 2)], '{"Wid')
