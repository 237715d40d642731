"""Negotiation of the protocol of an upgraded HTTP connection, and the contract of a stream that shares a connection
with others. Pure: headers in, head of the response out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sampan.machinery.multiplex.websocket import accept_key


class MultiplexedStream(Protocol):
    """A stream whose two directions are closed independently."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that the stream was opened with; their names are in lower case."""

    async def read(self) -> bytes:
        """Return the received data; empty when the other side has closed its direction."""

    async def write(self, data: bytes) -> None:
        """Write data. Raise ConnectionError if the stream or the connection is closed."""

    async def close(self) -> None:
        """Close this side's direction; reading is still possible."""

    async def reset(self) -> None:
        """Abort both directions at once."""


STREAM_TYPE, PORT, REQUEST_ID = "streamtype", "port", "requestid"
"""The headers with which the streams of exec, attach and port-forward are opened."""
STDIN, STDOUT, STDERR, ERROR, RESIZE, DATA = "stdin", "stdout", "stderr", "error", "resize", "data"
"""The values of the header `STREAM_TYPE`."""

SPDY = "SPDY/3.1"
STREAM_PROTOCOL, ACCEPTED_PROTOCOLS = "X-Stream-Protocol-Version", "X-Accepted-Stream-Protocol-Versions"
WEBSOCKET_PROTOCOL, WEBSOCKET_KEY = "Sec-WebSocket-Protocol", "Sec-WebSocket-Key"
BEARER = "base64url.bearer.authorization.k8s.io."
"""The prefix of a subprotocol that is not a protocol, but carries a bearer token."""
PORT_FORWARD = "portforward.k8s.io"
TUNNELLED_PORT_FORWARD = f"{SPDY}+{PORT_FORWARD}"

Values = Callable[[str], Sequence[str]]
"""Returns all values of a header."""


class UpgradeRefused(Exception):
    """The upgrade is rejected, and the client gets an error response with this status code, text and headers."""

    def __init__(self, code: int, text: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(text)
        self.code, self.text, self.headers = code, text, headers


@dataclass(frozen=True, slots=True, kw_only=True)
class NegotiatedProtocol:
    protocol: str
    is_websocket: bool
    headers: Sequence[tuple[str, str]] = field(default_factory=tuple)

    @property
    def head(self) -> bytes:
        """The head of the response, after which the protocol is used."""
        lines = ["HTTP/1.1 101 Switching Protocols", *(f"{name}: {value}" for name, value in self.headers), "", ""]
        return "\r\n".join(lines).encode()


def is_upgrade(values: Values) -> bool:
    """Whether an upgrade is requested. As in Kubernetes, the word "upgrade" in the Connection header is sufficient."""
    return any("upgrade" in value.lower() for value in values("Connection"))


def is_websocket(values: Values) -> bool:
    return is_upgrade(values) and any(value.lower() == "websocket" for value in values("Upgrade"))


def list_requested_protocols(values: Values, header: str = WEBSOCKET_PROTOCOL) -> list[str]:
    """Return the protocols that the client requests, in its order."""
    words = [word.strip() for value in values(header) for word in value.split(",")]
    return [word for word in words if word and not word.startswith(BEARER)]


def negotiate_protocol(values: Values, *, spdy: Sequence[str], websocket: Sequence[str]) -> NegotiatedProtocol:
    """Negotiate the protocol. `websocket` contains "" if a client need not request one. Raise UpgradeRefused."""
    return _negotiate_websocket(values, websocket) if is_websocket(values) else _negotiate_spdy(values, spdy)


def _negotiate_websocket(values: Values, supported: Sequence[str]) -> NegotiatedProtocol:
    requested = list_requested_protocols(values) or [""]
    protocol = next((candidate for candidate in requested if candidate in supported), None)
    agreement = accept_handshake(values, protocol or "")
    if protocol is None:
        words = f"[{' '.join(requested)}]; supports [{' '.join(supported)}]"
        raise UpgradeRefused(403, f"requested protocol(s) are not supported: {words}")
    return agreement


def accept_handshake(values: Values, protocol: str) -> NegotiatedProtocol:
    """Accept the handshake of a WebSocket with this subprotocol, if it is not empty. Raise UpgradeRefused."""
    keys = values(WEBSOCKET_KEY)
    if not keys or "13" not in values("Sec-WebSocket-Version"):
        raise UpgradeRefused(400, "unable to upgrade: the WebSocket handshake is not complete")
    headers = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept_key(keys[0]))]
    if protocol:
        headers.append((WEBSOCKET_PROTOCOL, protocol))
    return NegotiatedProtocol(protocol=protocol, is_websocket=True, headers=headers)


def _negotiate_spdy(values: Values, supported: Sequence[str]) -> NegotiatedProtocol:
    if not (is_upgrade(values) and any(SPDY.lower() in value.lower() for value in values("Upgrade"))):
        raise UpgradeRefused(400, "unable to upgrade: missing upgrade headers in request")
    if not values(STREAM_PROTOCOL):
        raise UpgradeRefused(400, f"unable to upgrade: header {STREAM_PROTOCOL} does not exist in request")
    requested = list_requested_protocols(values, STREAM_PROTOCOL)
    if not requested:
        raise UpgradeRefused(400, f"unable to upgrade: header {STREAM_PROTOCOL} contains no valid protocols")
    protocol = next((candidate for candidate in requested if candidate in supported), None)
    if protocol is None:
        words = f"client supports [{' '.join(requested)}], server accepts [{' '.join(supported)}]"
        raise UpgradeRefused(
            403,
            f"unable to upgrade: unable to negotiate protocol: {words}",
            [(ACCEPTED_PROTOCOLS, candidate) for candidate in supported],
        )
    headers = [("Connection", "Upgrade"), ("Upgrade", SPDY), (STREAM_PROTOCOL, protocol)]
    return NegotiatedProtocol(protocol=protocol, is_websocket=False, headers=headers)
