"""The /exec, /attach, /portForward and /run endpoints."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from sampan.api.types.core_v1 import Pod
from sampan.host.http import HttpRequest, HttpResponse, StreamResponse
from sampan.kubelet.server.view import ErrorResponse, KubeletView, pod_of, spec_of
from sampan.machinery.multiplex import handshake, port_forward, remote_command
from sampan.machinery.multiplex.handshake import NegotiatedProtocol, UpgradeRefused
from sampan.machinery.multiplex.remote_command import Begin, NoStreams, RemoteCommandOptions, RemoteProcess
from sampan.runtimes.contract import RUNNING, RuntimeFailure, collect_output


async def handle_exec(view: KubeletView, request: HttpRequest, segments: Sequence[str]) -> StreamResponse | None:
    """Handle /exec. `segments` consists of namespace, pod, optionally its UID, and container."""
    pod, container = _find_running_container(view, segments)
    streams, command = parse_requested_streams(request), request.query.getall("command", [])

    async def begin() -> RemoteProcess:
        return await view.runtime.exec(pod, container, command, has_stdin=streams.stdin, has_tty=streams.tty)

    return await _serve(request, streams, begin, command)


async def handle_attach(view: KubeletView, request: HttpRequest, segments: Sequence[str]) -> StreamResponse | None:
    pod, container = _find_running_container(view, segments)
    streams = parse_requested_streams(request)
    spec = spec_of(pod, container)
    if spec is not None and streams.tty != bool(spec.tty):
        streams = RemoteCommandOptions(
            stdin=streams.stdin, stdout=streams.stdout, stderr=streams.stderr, tty=bool(spec.tty)
        )

    async def begin() -> RemoteProcess:
        return await view.runtime.attach(pod, container, has_stdin=streams.stdin)

    return await _serve(request, streams, begin, ())


async def _serve(
    request: HttpRequest, streams: RemoteCommandOptions, begin: Begin, command: Sequence[str]
) -> StreamResponse | None:
    agreement = _negotiate(request, remote_command.SPDY_PROTOCOLS, remote_command.WEBSOCKET_PROTOCOLS)
    wire = request.take_over(agreement.head)
    try:
        async with remote_command.accept_streams(wire, agreement, streams) as ends:
            await remote_command.serve(ends, begin, command)
    except (ConnectionError, NoStreams):
        await wire.close()
    return None


async def handle_port_forward(
    view: KubeletView, request: HttpRequest, segments: Sequence[str]
) -> StreamResponse | None:
    """Handle /portForward. `segments` consists of namespace, pod and optionally its UID."""
    pod = pod_of(view, *segments)
    agreement = _negotiate(request, port_forward.SPDY_PROTOCOLS, port_forward.WEBSOCKET_PROTOCOLS)
    ports = _ports(request) if agreement.is_websocket and not agreement.protocol.startswith(handshake.SPDY) else []
    if not pod.spec.hostNetwork and not view.runtime.pod_report(pod).is_sandbox_ready:
        raise ErrorResponse(500, f'pod not found ("{pod.metadata.name}_{pod.metadata.namespace}")')
    wire = request.take_over(agreement.head)
    subject = f"pod {pod.metadata.name}, uid {pod.metadata.uid}"
    try:
        await port_forward.serve(wire, agreement, ports, lambda port: view.runtime.connect(pod, port), subject)
    except ConnectionError:
        await wire.close()
    return None


async def handle_run(view: KubeletView, request: HttpRequest, segments: Sequence[str]) -> StreamResponse | None:
    """Handle /run, the legacy endpoint: run one command and return its output."""
    pod, container = _find_running_container(view, segments)
    command = request.query.get("cmd", "").split(" ")
    try:
        stream = await view.runtime.exec(pod, container, command)
    except RuntimeFailure as error:
        raise ErrorResponse(500, str(error)) from None
    code, out, err = await collect_output(stream)
    if code:
        raise ErrorResponse(
            500, f"command '{shlex.join(command)}' exited with {code}: {(out + err).decode('utf-8', 'replace')}"
        )
    return HttpResponse(body=out + err, content_type="application/json")


def parse_requested_streams(request: HttpRequest) -> RemoteCommandOptions:
    flags = {name: request.query.get(name) == "1" for name in ("input", "output", "error", "tty")}
    streams = RemoteCommandOptions(
        stdin=flags["input"],
        stdout=flags["output"],
        stderr=flags["error"] and not flags["tty"],  # A terminal combines both outputs.
        tty=flags["tty"],
    )
    if not (streams.stdin or streams.stdout or streams.stderr):
        raise ErrorResponse(400, "you must specify at least 1 of stdin, stdout, stderr")
    return streams


def _find_running_container(view: KubeletView, segments: Sequence[str]) -> tuple[Pod, str]:
    *parts, container = segments
    pod = pod_of(view, *parts)
    container_report = view.runtime.pod_report(pod).container(container)
    if container_report is None or container_report.state != RUNNING:
        raise ErrorResponse(500, f'container not found ("{container}")')
    return pod, container


def _ports(request: HttpRequest) -> list[int]:
    texts = [text for value in request.query.getall("port", []) for text in value.split(",")]
    if not texts:
        raise ErrorResponse(400, 'query parameter "port" is required')
    for text in texts:
        if not text:
            raise ErrorResponse(400, 'query parameter "port" cannot be empty')
        if not (text.isascii() and text.isdecimal() and 0 < int(text[:6]) < 1 << 16):
            raise ErrorResponse(400, f'unable to parse "{text}" as a port')
    return [int(text) for text in texts]


def _negotiate(request: HttpRequest, spdy: Sequence[str], websocket: Sequence[str]) -> NegotiatedProtocol:
    if not handshake.is_upgrade(request.values):
        raise ErrorResponse(400, "Upgrade request required")
    try:
        return handshake.negotiate_protocol(request.values, spdy=spdy, websocket=websocket)
    except UpgradeRefused as refused:
        raise ErrorResponse(refused.code, refused.text) from None
