"""Input from peers on the network: frames, datagrams and request targets."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache

from sampan.machinery.multiplex import spdy_frames, upgrade, websocket
from sampan.machinery.multiplex.remote_command import parse_resizes
from sampan.network.dns.responder import Responder
from sampan.network.dns.upstream_response import client_response, encode_alias_response, is_response_to, parse_response
from sampan.network.dns.wire import MalformedMessage, name_bytes, parse_query
from sampan.network.ingress.request_target import BadTarget, parse_target
from tests.network.dns.objects import endpoint, endpoint_slice, record_table, responder_of, service, transport


def _pieces(data: bytes) -> Iterator[bytes]:
    """Yield the bytes in pieces, as a peer may send them; the first byte is the size of the pieces."""
    size = 1 + data[0] if data else 1
    for at in range(1, len(data), size):
        yield data[at : at + size]


# -- streams ---------------------------------------------------------------------------------------------------------

WEBSOCKET_ERRORS = (websocket.BadWebSocketFrame,)
_MASKED = [websocket.frame(opcode, b"hello", is_masked=True) for opcode in (1, 2, 8, 9, 10)]
WEBSOCKETS = (
    b"\xff" + b"".join(_MASKED),
    b"\x03" + b"\x01\x82abcdhe" + b"\x89\x80abcd" + b"\x00\x81abcdl" + b"\x80\x82abcdlo",
    b"\xff" + websocket.frame(2, b'\x04{"Width":80,"Height":24}' + bytes(300), is_masked=True),
)


def read_websocket(data: bytes) -> None:
    """Read the frames of a client; messages of channel 4 are terminal sizes."""
    frames = websocket.WebSocketFrames(is_server=True)
    for piece in _pieces(data):
        for message in frames.feed(piece):
            if message.data[:1] == b"\x04":
                parse_resizes(message.data[1:].decode("utf-8", "replace"))


SPDY_ERRORS = (spdy_frames.BadSpdyFrame, upgrade.BadResponse)


def _spdy() -> bytes:
    writer = spdy_frames.SpdyFrameWriter()
    headers = {"streamtype": "stdin", "port": "80"}
    frames = [writer.syn_stream(1, headers), writer.data(1, b"data"), writer.syn_reply(1, headers, is_last=True)]
    return b"".join(
        [*frames, writer.ping(1), writer.rst_stream(1, 5), writer.goaway(1), writer.data(1, b"", is_last=True)]
    )


SPDY = (b"\xff" + _spdy(), b"\x05" + _spdy())


def read_spdy(data: bytes) -> None:
    reader = spdy_frames.SpdyFrameReader()
    for piece in _pieces(data):
        for frame in reader.feed(piece):
            assert len(frame.headers) <= 100


# -- DNS -------------------------------------------------------------------------------------------------------------


@cache
def _responder() -> Responder:
    slices = [endpoint_slice("web", endpoint("10.0.0.1", "a"), endpoint("10.0.0.2"))]
    return responder_of(
        record_table(
            [
                (service("web", "None"), slices),
                (service("one", "10.96.0.5"), []),
                (service("out", external_name="Www.Example.com"), []),
            ]
        )
    )


def _question(name: str, type: int = 1) -> bytes:
    return name_bytes(name) + struct.pack("!HH", type, 1)


def _query(name: str, type: int = 1, extra: bytes = b"") -> bytes:
    counts = struct.pack("!HHHH", 1, 0, 0, 1 if extra else 0)
    return b"\x12\x34\x01\x00" + counts + _question(name, type) + extra


_OPT = b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00"
QUERIES = (
    _query("web.default.svc.cluster.local"),
    _query("_http._tcp.web.default.svc.cluster.local", 33, _OPT),
    _query("out.default.svc.cluster.local", 28),
    _query("1-2-3-4.default.pod.cluster.local", 255, _OPT),
    _query("5.0.96.10.in-addr.arpa", 12),
    _query("cluster.local", 6),
)


def answer_query(data: bytes) -> None:
    """Answer a query over UDP and over TCP."""
    for protocol in ("udp", "tcp"):
        _responder().respond(data, transport(protocol))


DNS_ERRORS = (MalformedMessage,)
_RECORD = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x1e\x00\x04\x0a\x00\x00\x01"
_SOA = b"\xc0\x0c\x00\x06\x00\x01\x00\x00\x00\x1e\x00\x16\x00\x00" + bytes(20)
DNS_RESPONSES = (
    b"\x12\x34\x81\x80\x00\x01\x00\x02\x00\x00\x00\x01" + _question("www.example.com") + _RECORD * 2 + _OPT,
    b"\x12\x34\x81\x83\x00\x01\x00\x00\x00\x01\x00\x01" + _question("www.example.com") + _SOA + _OPT,
    b"\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x02" + _question("www.example.com") + _RECORD + _OPT + _RECORD,
)


def read_dns_response(data: bytes) -> None:
    """Read the response of an upstream server, and send it to a client fresh, aged and behind an alias."""
    question = _question("www.example.com")
    if not is_response_to(data, b"\x12\x34", question):
        return
    upstream = parse_response(data, question)
    query = parse_query(_query("www.example.com", extra=_OPT))
    alias = name_bytes("out.default.svc.cluster.local")
    for message in (
        client_response(query, upstream, 0),
        client_response(query, upstream, 10),
        encode_alias_response(query, (alias,), 5, upstream),
    ):
        assert len(message) <= 2 * len(data) + 512


# -- HTTP ------------------------------------------------------------------------------------------------------------

TARGET_ERRORS = (BadTarget, upgrade.BadResponse)
TARGETS = (
    b"/a/b?c=d\nexample.com:80",
    b"http://example.com/a\n[::1]:80",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nA: b\r\n\r\n",
)


def read_request_target(data: bytes) -> None:
    """Read a request target with a Host header, or the head of a response."""
    if data.startswith(b"HTTP"):
        upgrade.parse_response_head(data)
        return
    target, _, host = data.decode("utf-8", "surrogateescape").partition("\n")
    parse_target(target, [host])
