"""WebSocket frames: round trips, malformed input, and bounded cost."""

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.machinery.multiplex import websocket
from tests.input_cost import MOST_MEMORY, is_quick, peak_memory
from tests.machinery.multiplex.pairs import cut

_cuts = st.lists(st.integers(1, 50), min_size=1)


@given(st.lists(st.tuples(st.sampled_from([1, 2, 9]), st.binary(max_size=120))), _cuts, st.booleans())
def test_messages_round_trip(sent: list[tuple[int, bytes]], cuts: list[int], is_server: bool) -> None:
    data = b"".join(websocket.frame(opcode, payload, is_masked=is_server) for opcode, payload in sent)
    frames = websocket.WebSocketFrames(is_server=is_server)
    messages = [message for piece in cut(data, cuts) for message in frames.feed(piece)]
    assert [(message.opcode, message.data) for message in messages] == sent


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536, 200_000])
def test_all_encodings_of_the_message_length(size: int) -> None:
    data = bytes(size)
    (message,) = websocket.WebSocketFrames(is_server=True).feed(websocket.frame(2, data, is_masked=True))
    assert message.data == data


def test_ping_between_fragments_of_a_message_is_delivered_first() -> None:
    parts = [b"\x01\x02he", b"\x89\x01!", b"\x00\x01l", b"\x80\x02lo"]
    messages = websocket.WebSocketFrames(is_server=False).feed(b"".join(parts))
    assert [(message.opcode, message.data) for message in messages] == [(9, b"!"), (1, b"hello")]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x82\x01a", id="not masked"),
        pytest.param(b"\xc2\x81abcda", id="reserved bits"),
        pytest.param(b"\x83\x80abcd", id="unknown opcode"),
        pytest.param(b"\x09\x80abcd", id="fragmented ping"),
        pytest.param(b"\x80\x80abcd", id="continuation without a message"),
        pytest.param(b"\x02\x80abcd\x02\x80abcd", id="message within a fragmented message"),
        pytest.param(b"\x82\xff" + b"\x7f" * 8, id="too large"),
    ],
)
def test_bad_frames_are_rejected(data: bytes) -> None:
    with pytest.raises(websocket.BadWebSocketFrame):
        websocket.WebSocketFrames(is_server=True).feed(data)


_SIZE = 100_000
_EXPENSIVE = {
    "empty fragments": b"\x02\x80abcd" + b"\x00\x80abcd" * (_SIZE // 6),
    "small fragments": b"\x02\x80abcd" + b"\x00\x81abcdx" * (_SIZE // 7),
    "pings": b"\x89\x80abcd" * (_SIZE // 6),
    "small messages": b"\x82\x81abcdx" * (_SIZE // 7),
    "incomplete large frame": b"\x82\xff" + struct.pack(">Q", websocket.MAX_MESSAGE_BYTES) + b"abcd" + bytes(_SIZE),
}


@pytest.mark.parametrize("name", _EXPENSIVE)
@pytest.mark.parametrize("piece", [1, 1000, _SIZE], ids=["byte by byte", "in pieces", "at once"])
def test_cost_of_reading_frames_is_bounded(name: str, piece: int) -> None:
    """Memory is proportional to the input, so it is measured with a tenth of it."""

    def feed(data: bytes) -> None:
        frames = websocket.WebSocketFrames(is_server=True)
        for at in range(0, len(data), piece):
            frames.feed(data[at : at + piece])

    assert is_quick(lambda: feed(_EXPENSIVE[name]))
    assert peak_memory(lambda: feed(_EXPENSIVE[name][: _SIZE // 10])) < MOST_MEMORY // 10


def test_small_fragments_take_no_more_memory_than_their_bytes() -> None:
    frames = websocket.WebSocketFrames(is_server=False)
    frames.feed(b"\x02\x00")
    tracemalloc.start()
    try:
        for _ in range(20):
            frames.feed(b"\x00\x01x\x00\x00" * 1000)
        own_traces = tracemalloc.Filter(True, websocket.__file__)
        held = tracemalloc.take_snapshot().filter_traces([own_traces]).statistics("filename")
        assert sum(statistic.size for statistic in held) < 40_000
    finally:
        tracemalloc.stop()
