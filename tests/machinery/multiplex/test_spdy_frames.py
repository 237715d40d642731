"""SPDY frames: round trips, malformed input, and bounded cost."""

import contextlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.machinery.multiplex import spdy_frames
from tests.input_cost import check_cost
from tests.machinery.multiplex.pairs import cut

_texts = st.text(st.characters(codec="utf-8"), max_size=20)
_cuts = st.lists(st.integers(1, 50), min_size=1)
_headers = st.dictionaries(_texts.map(str.lower).filter(lambda text: text == text.lower()), _texts, max_size=5)


@given(st.lists(st.tuples(st.integers(1, 1 << 20), _headers, st.binary(max_size=100), st.booleans())), _cuts)
def test_frames_round_trip(sent: list[tuple[int, dict[str, str], bytes, bool]], cuts: list[int]) -> None:
    writer, reader, data = spdy_frames.SpdyFrameWriter(), spdy_frames.SpdyFrameReader(), b""
    for stream, headers, content, is_last in sent:
        data += writer.syn_stream(stream, headers, is_last=is_last) + writer.data(stream, content, is_last=is_last)
        data += writer.syn_reply(stream, headers) + writer.rst_stream(stream, 5) + writer.ping(stream)
        data += writer.goaway(stream, 1)
    frames = [frame for piece in cut(data, cuts) for frame in reader.feed(piece)]
    assert len(frames) == 6 * len(sent)
    for at, (stream, headers, content, is_last) in enumerate(sent):
        opened, frame, reply, reset, ping, goaway = frames[6 * at : 6 * at + 6]
        assert (opened.kind, opened.stream, opened.headers, opened.is_last) == (1, stream, headers, is_last)
        assert (frame.kind, frame.stream, frame.data, frame.is_last) == (0, stream, content, is_last)
        assert (reply.kind, reply.headers) == (2, headers)
        assert (reset.kind, reset.status, ping.kind, ping.stream) == (3, 5, 6, stream)
        assert (goaway.kind, goaway.stream, goaway.status) == (7, stream, 1)


@given(st.integers(0, 12), st.integers(0, 255), st.binary(max_size=100), st.binary(max_size=100))
def test_control_frames_with_arbitrary_content_raise_only_bad_spdy_frame(
    kind: int, flags: int, content: bytes, rest: bytes
) -> None:
    head = struct.pack(">HHI", 0x8003, kind, flags << 24 | len(content))
    with contextlib.suppress(spdy_frames.BadSpdyFrame):
        spdy_frames.SpdyFrameReader().feed(head + content + rest)


def test_compression_dictionary_is_that_of_the_protocol() -> None:
    assert (len(spdy_frames.DICTIONARY), zlib.adler32(spdy_frames.DICTIONARY)) == (1423, 0xE3C6A7C2)


_SIZE = 100_000


def _header_bombs(size: int) -> bytes:
    """Return frames that open streams whose compressed headers expand to the largest allowed size."""
    deflate, data, stream = zlib.compressobj(9, zdict=spdy_frames.DICTIONARY), b"", 1
    while len(data) < size:
        raw = struct.pack(">III", 1, 1, 0x61000000)[:9] + struct.pack(">I", 16_000) + bytes(16_000)
        content = struct.pack(">IIH", stream, 0, 0) + deflate.compress(raw) + deflate.flush(zlib.Z_SYNC_FLUSH)
        data += struct.pack(">HHI", 0x8003, 1, len(content)) + content
        stream += 2
    return data


_EXPENSIVE = {
    "header bombs": _header_bombs(_SIZE),
    "pings": spdy_frames.SpdyFrameWriter().ping(1) * (_SIZE // 12),
    "empty data": spdy_frames.SpdyFrameWriter().data(1, b"") * (_SIZE // 8),
    "goaways": spdy_frames.SpdyFrameWriter().goaway(1) * (_SIZE // 16),
}


@pytest.mark.parametrize("name", _EXPENSIVE)
@pytest.mark.parametrize("piece", [100, _SIZE], ids=["in pieces", "at once"])
def test_cost_of_reading_frames_is_bounded(name: str, piece: int) -> None:
    data = _EXPENSIVE[name]

    def feed() -> None:
        reader = spdy_frames.SpdyFrameReader()
        for at in range(0, len(data), piece):
            reader.feed(data[at : at + piece])

    check_cost(feed)


def test_too_long_compressed_headers_are_rejected() -> None:
    deflate = zlib.compressobj(zdict=spdy_frames.DICTIONARY)
    block = deflate.compress(bytes(8 << 20)) + deflate.flush(zlib.Z_SYNC_FLUSH)
    content = struct.pack(">IIH", 1, 0, 0) + block
    with pytest.raises(spdy_frames.BadSpdyFrame, match="too long"):
        spdy_frames.SpdyFrameReader().feed(struct.pack(">HHI", 0x8003, 1, len(content)) + content)
