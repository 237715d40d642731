"""gRPC probes with the health service grpc.health.v1."""

from __future__ import annotations

from sampan.api import durations
from sampan.kubelet.probes.results import Answer

_METHOD = "/grpc.health.v1.Health/Check"
_STATES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


async def ask(host: str, port: int, service: str, timeout_s: float) -> Answer:
    import grpc.aio  # type: ignore[import-untyped]

    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    options = [("grpc.primary_user_agent", "kube-probe/1.36"), ("grpc.enable_http_proxy", 0)]
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        check = channel.unary_unary(_METHOD)
        try:
            answer: bytes = await check(_request(service), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            return Answer(False, _told(error.code(), error.details() or "", target, timeout_s))
    state = _state(answer)
    if state == 1:
        return Answer(True, "service healthy")
    return Answer(False, f'service unhealthy (responded with "{_STATES.get(state, str(state))}")')


def _told(code: object, details: str, target: str, timeout_s: float) -> str:
    import grpc

    limit = durations.format_duration(int(timeout_s * 1e9))
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return f"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {details}"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"timeout: health rpc did not complete within {limit}"
    if code is grpc.StatusCode.UNAVAILABLE:
        return f'timeout: failed to connect service "{target}" within {limit}: {details}'
    return f"error: health rpc probe failed: {details}"


def _request(service: str) -> bytes:
    """Encode a HealthCheckRequest: field 1 is the name of the service."""
    name = service.encode()
    return b"\x0a" + _varint(len(name)) + name if name else b""


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _state(answer: bytes) -> int:
    """Decode the state of a HealthCheckResponse: field 1, one byte, omitted for 0."""
    return answer[1] if len(answer) >= 2 and answer[0] == 0x08 else 0
