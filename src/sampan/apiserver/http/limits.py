"""The limits of the HTTP server: sizes, timeouts and numbers of requests and connections."""

from dataclasses import dataclass

from sampan.api.limits import REQUEST_BODY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    body_bytes: int = REQUEST_BODY_BYTES
    line_bytes: int = 128 << 10
    """The maximum size of the request line: method, path and query."""
    field_bytes: int = 64 << 10
    """The maximum size of one header."""
    fields: int = 256
    head_bytes: int = 1 << 20
    """The maximum size of the request line and all headers together."""
    head_s: float = 32
    """How long a client may take to send the head of a request."""
    idle_s: float = 90
    """How long an idle connection is kept open."""
    request_s: float = 60
    """The timeout of a request, from its head to the end of the response; long-running requests are exempt."""
    handshake_s: float = 10
    """The timeout of the TLS handshake."""
    linger_s: float = 5
    """How long the rest of a rejected request is read and discarded, so that the client gets the response."""
    connections: int = 16_000
    """The maximum number of connections, if file descriptors suffice; further ones wait until one is closed."""
    connections_per_peer: int = 12_000
    """The maximum number of connections from one address, and at most three quarters of all: enough for 10,000 watches
    from a machine that simulates a large cluster. Further ones are closed as soon as they are accepted."""
    reserved_descriptors: int = 1_024
    """File descriptors reserved for storage, kubelet, logs and outgoing connections, but at most a quarter of all."""
    reading: int = 400
    """The maximum number of concurrent read-only requests, not counting long-running ones."""
    writing: int = 200
    """The maximum number of concurrent mutating requests."""
