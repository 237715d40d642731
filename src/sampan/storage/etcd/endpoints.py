"""Connections to the members of an etcd cluster, one each, used round robin.

A connection is kept to every member, so that a failed member costs no more than the failed request: `pick` returns
connected members in turn and skips those that failed recently or have left requests unanswered for too long (a member
may accept connections and still not respond: stopped, or cut off from its leader).
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]
from grpc import aio
from msgspec import Struct

from sampan.storage.etcd.proto import RpcMethod

SHUNNED_S = 2.0
"""How long a member that failed is used only if there is no other, in seconds."""
SILENT_S = 0.5
"""How long a member may leave all requests unanswered before others are preferred, in seconds."""

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # etcd accepts a ping every five seconds.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # The connections of a backend are not shared, and close with it.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


class EtcdTlsFiles(Struct, frozen=True, kw_only=True):
    """TLS files in PEM format, as for etcdctl."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(*(file and file.read_bytes() for file in (self.ca, self.key, self.cert)))


class EtcdEndpoint:
    """A member and the channel to it."""

    def __init__(self, url: str, tls: EtcdTlsFiles, connect_timeout_s: float) -> None:
        self.url = url
        self._shunned_until = 0.0
        self._pending = 0
        self._heard_at = 0.0
        """When the last response arrived, or the first of the pending requests was sent if that is later."""
        address, is_secure = parse_url(url)
        options = [*_OPTIONS, ("grpc.min_reconnect_backoff_ms", int(connect_timeout_s * 1000))]
        self.channel = (
            aio.secure_channel(address, tls.credentials(), options)
            if is_secure
            else aio.insecure_channel(address, options)
        )
        self._calls: dict[str, Any] = {}

    def is_ready(self) -> bool:
        """Whether the channel is connected; if not, start connecting."""
        state: grpc.ChannelConnectivity = self.channel.get_state(try_to_connect=True)
        return state is grpc.ChannelConnectivity.READY

    def is_healthy(self) -> bool:
        """Whether the member has not failed recently and responds to pending requests."""
        now = asyncio.get_running_loop().time()
        return now >= self._shunned_until and not (self._pending and now - self._heard_at > SILENT_S)

    def shun(self) -> None:
        self._shunned_until = asyncio.get_running_loop().time() + SHUNNED_S

    async def ask(self, method: RpcMethod, request: Any, **options: Any) -> Any:
        """Send a request and return its response; raise the errors of gRPC."""
        if not self._pending:
            self._heard_at = asyncio.get_running_loop().time()
        self._pending += 1
        try:
            response = await self._unary(method)(request, **options)
        finally:
            self._pending -= 1
        self._heard_at = asyncio.get_running_loop().time()
        return response

    def _unary(self, method: RpcMethod) -> Any:
        """Return the callable of a method, which is cached because creating it costs as much as calling it."""
        call = self._calls.get(method.path)
        if call is None:
            call = self._calls[method.path] = self.channel.unary_unary(
                method.path, method.request.SerializeToString, method.response.FromString
            )
        return call

    def stream(self, method: RpcMethod, **options: Any) -> Any:
        open_call = self.channel.stream_stream(
            method.path, method.request.SerializeToString, method.response.FromString
        )
        return open_call(**options)


class EtcdEndpoints:
    """The members; they are connected inside the `async with` block, and reconnected by `pick`."""

    def __init__(self, *, urls: Sequence[str], tls: EtcdTlsFiles, connect_timeout_s: float) -> None:
        if not urls:
            raise ValueError("no etcd endpoint is configured")
        self._urls, self._tls, self._connect_timeout_s = urls, tls, connect_timeout_s
        self._all: list[EtcdEndpoint] = []
        self._next = 0

    async def __aenter__(self) -> "EtcdEndpoints":
        self._all = [EtcdEndpoint(url, self._tls, self._connect_timeout_s) for url in self._urls]
        return self

    async def __aexit__(self, *exc: object) -> None:
        for endpoint in self._all:
            await endpoint.channel.close()

    async def pick(self) -> EtcdEndpoint:
        """Return the member to send a request to.

        If none is connected in time, return one nevertheless, so that the request fails with the reason (connection
        refused, certificate, name resolution).
        """
        ready = self._list_ready() or await self._wait_for_connection()
        return self._pick_next([endpoint for endpoint in ready if endpoint.is_healthy()] or ready)

    def _list_ready(self) -> list[EtcdEndpoint]:
        return [endpoint for endpoint in self._all if endpoint.is_ready()]

    async def _wait_for_connection(self) -> list[EtcdEndpoint]:
        """Poll until a member is connected, or return all members after the timeout.

        Polling costs something only while there is no connection at all. Subscribing to state changes instead would
        leave gRPC with a callback to run when the event loop may already be closed.
        """
        end = asyncio.get_running_loop().time() + self._connect_timeout_s
        pause_s = 0.001
        while not (ready := self._list_ready()):
            if asyncio.get_running_loop().time() > end:
                return self._all
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.05)
        return ready

    def _pick_next(self, choice: list[EtcdEndpoint]) -> EtcdEndpoint:
        self._next += 1
        return choice[self._next % len(choice)]


def parse_url(url: str) -> tuple[str, bool]:
    """Return the address to connect to, and whether to use TLS; a bare `host:port` means no TLS, as for etcdctl."""
    if "://" not in url:
        return url, False
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"not an etcd endpoint: {url} (want http://host:port or https://host:port)")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{parts.port or 2379}", parts.scheme == "https"
