"""What the HTTP server puts up with, in one place: sizes, times and numbers."""

from dataclasses import dataclass

from sampan.api.limits import REQUEST_BODY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    body_bytes: int = REQUEST_BODY_BYTES
    line_bytes: int = 128 << 10
    """Of the request line: method, path and query."""
    field_bytes: int = 64 << 10
    """Of one header."""
    fields: int = 256
    head_bytes: int = 1 << 20
    """Of the request line and all headers together."""
    head_s: float = 32
    """How long a client may take to send the head of a request."""
    idle_s: float = 90
    """How long a connection is kept open between requests."""
    request_s: float = 60
    """How long a request may take, from its head to the end of its answer; watches and the like may take longer."""
    handshake_s: float = 10
    """How long a client may take to agree on TLS."""
    linger_s: float = 5
    """How long the rest of a request that was refused is read and thrown away, so that the client gets the answer."""
    connections: int = 16_000
    """Connections at once, if there are descriptors for so many; more wait until one is closed."""
    connections_per_peer: int = 12_000
    """Connections at once from one address, and no more than three quarters of all: enough for 10,000 watches from a
    machine that plays a large cluster. More are closed as soon as they are accepted."""
    reserved_descriptors: int = 1_024
    """Descriptors kept for the store, the kubelet, logs and calls to others, but no more than a quarter of all."""
    reading: int = 400
    """Requests at once that change nothing, not counting watches and the like."""
    writing: int = 200
    """Requests at once that change something."""


__all__ = ["HttpLimits"]
