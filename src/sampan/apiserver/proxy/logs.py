"""Container logs, streamed from the kubelet to the client."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from sampan.host.http import HttpRequest, StreamResponse
from sampan.machinery import errors
from sampan.machinery.multiplex import handshake
from sampan.machinery.multiplex.websocket import BINARY, TEXT, WebSocket

if TYPE_CHECKING:
    from sampan.api.types.core_v1 import Pod
    from sampan.apiserver.proxy.upstream import UpstreamClient
_ERROR_TEXT_BYTES = 100_000
_BINARY, _BASE64 = "binary.k8s.io", "base64.binary.k8s.io"


async def serve(
    request: HttpRequest, upstream: UpstreamClient, pod: Pod, container: str, query: Mapping[str, str]
) -> StreamResponse | None:
    pieces = _pieces(upstream, pod, container, query)
    try:
        first = await anext(pieces, b"")
        if handshake.is_websocket(request.values):
            await _stream_over_websocket(request, first, pieces)
            return None
        response = StreamResponse(headers={"Content-Type": "text/plain", "Cache-Control": "no-cache, private"})
        response.start(request)
        if first:
            await response.write(first)
        async for piece in pieces:
            await response.write(piece)
        return response
    finally:
        await pieces.aclose()


async def _stream_over_websocket(request: HttpRequest, first: bytes, pieces: AsyncGenerator[bytes, None]) -> None:
    """Send each piece as a WebSocket message, binary or base64."""
    try:
        agreement = handshake.negotiate_protocol(request.values, spdy=(), websocket=("", _BINARY, _BASE64))
    except handshake.UpgradeRefused as refused:
        raise errors.ApiError(refused.text, code=refused.code) from None
    wire = request.take_over(agreement.head)
    socket = WebSocket(wire, is_server=True, protocol=agreement.protocol)
    is_text = agreement.protocol == _BASE64

    async def send(piece: bytes) -> None:
        if piece:
            await socket.send(base64.b64encode(piece) if is_text else piece, TEXT if is_text else BINARY)

    await send(first)
    async for piece in pieces:
        await send(piece)
    await socket.close()


async def _pieces(
    upstream: UpstreamClient, pod: Pod, container: str, query: Mapping[str, str]
) -> AsyncGenerator[bytes, None]:
    """Return the pieces of the log. The first may be empty: it means that the kubelet has accepted the request."""
    meta = pod.metadata
    local = upstream.kubelets.find_local(pod.spec.nodeName)
    if local is not None:
        log_stream = local.log(meta.namespace, meta.name, container, query)
        try:
            async for piece in log_stream:
                yield piece
        except Exception as error:
            code = getattr(error, "code", None)
            if not isinstance(code, int):
                raise
            raise kubelet_error(code, str(error), meta.name) from None
        finally:
            await log_stream.aclose()
        return
    target = f"/containerLogs/{meta.namespace}/{meta.name}/{container}"
    if query:
        target = f"{target}?{urlencode(query)}"
    async for piece in upstream.read_from_kubelet(pod.spec.nodeName, target, meta.name):
        yield piece


def kubelet_error(code: int, text: str, name: str) -> errors.ApiError:
    """Return the API error for a rejection by the kubelet."""
    text = text[:_ERROR_TEXT_BYTES]
    if code == 500:
        return errors.internal_error(text)
    if code == 400:
        return errors.bad_request(text)
    return errors.generic(code, text, resource="pods/log", name=name)
