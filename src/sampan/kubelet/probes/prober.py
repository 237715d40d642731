"""Performs one run of a probe: HTTP, TCP, gRPC health or exec (`pkg/kubelet/prober/prober.go`, `pkg/probe`)."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from yarl import URL

from sampan.api.addresses import join_host_port, url_host
from sampan.api.feature_gates import FeatureGates
from sampan.api.kubernetes_version import MINOR_VERSION
from sampan.api.types.core_v1 import Container, HTTPGetAction, Pod, Probe
from sampan.api.values import durations
from sampan.kubelet.container_config.variables import expand
from sampan.machinery.extras import MissingExtra, require
from sampan.machinery.http.lean_aiohttp import aiohttp
from sampan.machinery.http.session import HttpSession, get_following
from sampan.runtimes.contract import Runtime, RuntimeFailure, collect_output


class ProbeResult(NamedTuple):
    """The outcome of one run of a probe."""

    is_success: bool
    text: str = ""
    is_warning: bool = False
    """Whether a success produces a warning event."""
    is_error: bool = False
    """Whether the probe could not be performed, so that the result is ignored."""


async def probe_container(
    runtime: Runtime, pod: Pod, container: Container, probe: Probe, address: str, gates: FeatureGates
) -> ProbeResult:
    timeout_s = float(probe.timeoutSeconds or 1)
    if probe.exec is not None:
        fixed = {variable.name: variable.value for variable in container.env if variable.value}
        words = [expand(word, fixed) for word in probe.exec.command]
        return await probe_exec(runtime, pod, container.name, words, timeout_s)
    try:
        if probe.httpGet is not None:
            url = url_of(probe.httpGet, address, port_of(probe.httpGet.port, container))
            return await probe_http(url, headers_of(probe.httpGet), timeout_s)
        if probe.tcpSocket is not None:
            host = probe.tcpSocket.host or address
            return await probe_tcp(host, port_of(probe.tcpSocket.port, container), timeout_s)
    except ValueError as error:
        return ProbeResult(False, str(error), is_error=True)
    if probe.grpc is not None:
        uses_tls = probe.grpc.mode == "TLS" and gates.is_enabled("GRPCContainerProbeTLS")
        return await probe_grpc(address, probe.grpc.port, probe.grpc.service or "", timeout_s, uses_tls=uses_tls)
    return ProbeResult(False, f"missing probe handler for {pod.metadata.name}:{container.name}", is_error=True)


def port_of(port: int | str, container: Container) -> int:
    """Return the port by its number, or by its name in the container. Raise ValueError if there is none."""
    if isinstance(port, str) and not port.isdecimal():
        for container_port in container.ports:
            if container_port.name == port:
                return container_port.containerPort
        raise ValueError(f"couldn't find port by name {port!r}")
    number = int(port)
    if not 0 < number < 65536:
        raise ValueError(f"invalid port number: {number}")
    return number


async def probe_tcp(host: str, port: int, timeout_s: float) -> ProbeResult:
    shown = join_host_port(host, port)
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return ProbeResult(False, f"dial tcp {shown}: i/o timeout")
    except OSError as error:
        return ProbeResult(False, f"dial tcp {shown}: connect: {os_error_text(error)}")
    writer.transport.abort()
    return ProbeResult(True)


def os_error_text(error: OSError) -> str:
    """Return the error message of the operating system, whatever library wrapped the error."""
    return os.strerror(error.errno).lower() if error.errno else str(error)


AGENT = f"kube-probe/{MINOR_VERSION}"
_MAX_OUTPUT = 10 << 10


def url_of(action: HTTPGetAction, address: str, port: int) -> str:
    host = action.host or address
    shown = url_host(host)
    path = action.path or "/"
    return f"{(action.scheme or 'HTTP').lower()}://{shown}:{port}{path if path.startswith('/') else '/' + path}"


def headers_of(action: HTTPGetAction) -> dict[str, str]:
    headers = {header.name.title(): header.value for header in action.httpHeaders}
    headers.setdefault("User-Agent", AGENT)
    headers.setdefault("Accept", "*/*")
    return {name: value for name, value in headers.items() if value or name == "Host"}


async def probe_http(url: str, headers: Mapping[str, str], timeout_s: float) -> ProbeResult:
    """Perform the probe. Redirects are followed on the same host; one to another host is a success with a warning."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _get(URL(url, encoded=True), headers)
    except TimeoutError:
        timeout_text = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return ProbeResult(False, f'Get "{url}": {timeout_text}')
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return ProbeResult(False, f'Get "{url}": {_error_text(error)}')


async def _get(url: URL, headers: Mapping[str, str]) -> ProbeResult:
    connector = aiohttp.TCPConnector(ssl=make_unverified_context(), force_close=True, limit=1)
    async with (
        HttpSession(connector=connector, skip_auto_headers=["User-Agent"]) as session,
        get_following(session, url, headers) as response,
    ):
        body = (await response.content.read(_MAX_OUTPUT)).decode("utf-8", "replace")
        return _http_result(response.status, body)


def _http_result(status: int, body: str) -> ProbeResult:
    if 200 <= status < 300:
        return ProbeResult(True, body)
    if 300 <= status < 400:
        return ProbeResult(True, f"Probe terminated redirects, Response body: {body}", is_warning=True)
    return ProbeResult(False, f"HTTP probe failed with statuscode: {status}")


def make_unverified_context() -> ssl.SSLContext:
    """Return a TLS context that does not verify the server: a probe tests whether a server responds, not which one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _error_text(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"dial tcp {error.host}:{error.port}: connect: {os_error_text(error.os_error)}"
    return str(error) or type(error).__name__


_CHUNK = 1 << 14
_GRPC_METHOD = "/grpc.health.v1.Health/Check"
_GRPC_STATES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


async def probe_grpc(host: str, port: int, service: str, timeout_s: float, *, uses_tls: bool = False) -> ProbeResult:
    try:
        require("grpc")
    except MissingExtra as missing:
        return ProbeResult(False, str(missing))
    target = join_host_port(host, port)
    if not uses_tls:
        return await _check_grpc_health(target, target, service, timeout_s)
    try:
        async with _tls_tunnel(host, port, timeout_s) as path:
            return await _check_grpc_health(f"unix:{path}", target, service, timeout_s)
    except TimeoutError:
        return ProbeResult(False, _grpc_connect_error(target, timeout_s, "i/o timeout"))
    except OSError as error:
        return ProbeResult(False, _grpc_connect_error(target, timeout_s, os_error_text(error)))


@asynccontextmanager
async def _tls_tunnel(host: str, port: int, timeout_s: float) -> AsyncIterator[Path]:
    """Yield the path of a Unix socket whose only connection is forwarded to a TLS server, because gRPC cannot leave the
    certificate of a server unverified."""
    context = make_unverified_context()
    context.set_alpn_protocols(["h2"])
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
    with closing(writer), TemporaryDirectory(prefix="grpc-probe-") as directory:
        path = Path(directory) / "tls"

        async def forward(inner_reader: asyncio.StreamReader, inner_writer: asyncio.StreamWriter) -> None:
            with closing(inner_writer):
                async with asyncio.TaskGroup() as group:
                    group.create_task(_pump(inner_reader, writer))
                    group.create_task(_pump(reader, inner_writer))

        server = await asyncio.start_unix_server(forward, path)
        with closing(server):
            yield path


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()


async def _check_grpc_health(address: str, target: str, service: str, timeout_s: float) -> ProbeResult:
    """Ask the server at an address of gRPC; `target` is how messages name it."""
    import grpc.aio  # type: ignore[import-untyped]

    options = [("grpc.primary_user_agent", AGENT), ("grpc.enable_http_proxy", 0)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        check = channel.unary_unary(_GRPC_METHOD)
        try:
            response: bytes = await check(_grpc_request(service), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            return ProbeResult(False, _grpc_error_text(error.code(), error.details() or "", target, timeout_s))
    state = _grpc_state(response)
    if state == 1:
        return ProbeResult(True, "service healthy")
    return ProbeResult(False, f'service unhealthy (responded with "{_GRPC_STATES.get(state, str(state))}")')


def _grpc_error_text(code: object, details: str, target: str, timeout_s: float) -> str:
    import grpc

    limit = durations.format_duration(int(timeout_s * 1e9))
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return f"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {details}"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"timeout: health rpc did not complete within {limit}"
    if code is grpc.StatusCode.UNAVAILABLE:
        return _grpc_connect_error(target, timeout_s, details)
    return f"error: health rpc probe failed: {details}"


def _grpc_connect_error(target: str, timeout_s: float, details: str) -> str:
    limit = durations.format_duration(int(timeout_s * 1e9))
    return f'timeout: failed to connect service "{target}" within {limit}: {details}'


def _grpc_request(service: str) -> bytes:
    """Encode a HealthCheckRequest: field 1 is the name of the service."""
    name = service.encode()
    return b"\x0a" + _varint(len(name)) + name if name else b""


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _grpc_state(response: bytes) -> int:
    """Decode the state of a HealthCheckResponse: field 1, one byte, omitted for 0."""
    return response[1] if len(response) >= 2 and response[0] == 0x08 else 0


async def probe_exec(
    runtime: Runtime, pod: Pod, container: str, command: Sequence[str], timeout_s: float
) -> ProbeResult:
    try:
        async with asyncio.timeout(timeout_s):
            stream = await runtime.exec(pod, container, command)
            code, out, err = await collect_output(stream, _MAX_OUTPUT)
    except TimeoutError:
        limit = durations.format_duration(int(timeout_s * 1e9))
        return ProbeResult(False, f'command timed out: "{" ".join(command)}" timed out after {limit}')
    except RuntimeFailure as failure:
        return ProbeResult(False, failure.message, is_error=True)
    return ProbeResult(code == 0, (out + err)[:_MAX_OUTPUT].decode("utf-8", "replace"))
