"""The /exec, /attach, /portForward and /run endpoints."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from aiohttp import web

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.server.view import KubeletView, Refusal, pod_of, spec_of
from sampan.machinery.multiplex import handshake, port_forward, remote_command
from sampan.machinery.multiplex.handshake import Agreement, Refused
from sampan.machinery.multiplex.remote_command import Begin, NoStreams, Process, Wanted
from sampan.machinery.multiplex.takeover import Taken, TakenWire, taken
from sampan.runtimes.contract import RUNNING, RuntimeFailure
from sampan.runtimes.streams import ProcessStream, collected


async def exec_in(view: KubeletView, request: web.BaseRequest, where: Sequence[str]) -> web.StreamResponse:
    """Handle /exec. `where` consists of namespace, pod, optionally its UID, and container."""
    pod, container = _running(view, where)
    streams, command = wanted_of(request), request.query.getall("command", [])

    async def begin() -> Process:
        return await view.runtime.exec(pod, container, command, has_stdin=streams.stdin, has_tty=streams.tty)

    return await _served(request, streams, begin, command)


async def attach_to(view: KubeletView, request: web.BaseRequest, where: Sequence[str]) -> web.StreamResponse:
    pod, container = _running(view, where)
    streams = wanted_of(request)
    spec = spec_of(pod, container)
    if spec is not None and streams.tty != bool(spec.tty):
        streams = Wanted(stdin=streams.stdin, stdout=streams.stdout, stderr=streams.stderr, tty=bool(spec.tty))

    is_once = spec is not None and bool(spec.stdinOnce)

    async def begin() -> Process:
        stream = await view.runtime.attach(pod, container)
        return stream if is_once else _Attached(stream)

    return await _served(request, streams, begin, ())


class _Attached:
    """A container whose stdin stays open when a client closes its end."""

    def __init__(self, stream: ProcessStream) -> None:
        self.read, self.write, self.resize = stream.read, stream.write, stream.resize
        self.wait, self.close = stream.wait, stream.close

    async def close_input(self) -> None:
        return


async def _served(request: web.BaseRequest, wanted: Wanted, begin: Begin, command: Sequence[str]) -> web.StreamResponse:
    agreement = _agreed(request, remote_command.SPDY_PROTOCOLS, remote_command.WEBSOCKET_PROTOCOLS)
    wire = await _taken(request, agreement)
    try:
        async with remote_command.accepted(wire, agreement, wanted) as ends:
            await remote_command.serve(ends, begin, command)
    except (ConnectionError, NoStreams):
        await wire.close()
    return Taken()


async def forward(view: KubeletView, request: web.BaseRequest, where: Sequence[str]) -> web.StreamResponse:
    """Handle /portForward. `where` consists of namespace, pod and optionally its UID."""
    pod = pod_of(view, *where)
    agreement = _agreed(request, port_forward.SPDY_PROTOCOLS, port_forward.WEBSOCKET_PROTOCOLS)
    ports = _ports(request) if agreement.is_websocket and not agreement.protocol.startswith(handshake.SPDY) else []
    if not pod.spec.hostNetwork and not view.runtime.pod_report(pod).is_sandbox_ready:
        raise Refusal(500, f'pod not found ("{pod.metadata.name}_{pod.metadata.namespace}")')
    wire = await _taken(request, agreement)
    about = f"pod {pod.metadata.name}, uid {pod.metadata.uid}"
    try:
        await port_forward.serve(wire, agreement, ports, lambda port: view.runtime.connect(pod, port), about)
    except ConnectionError:
        await wire.close()
    return Taken()


async def run_in(view: KubeletView, request: web.BaseRequest, where: Sequence[str]) -> web.StreamResponse:
    """Handle /run, the legacy endpoint: run one command and return its output."""
    pod, container = _running(view, where)
    command = request.query.get("cmd", "").split(" ")
    try:
        stream = await view.runtime.exec(pod, container, command)
    except RuntimeFailure as error:
        raise Refusal(500, str(error)) from None
    code, out, err = await collected(stream)
    if code:
        raise Refusal(
            500, f"command '{shlex.join(command)}' exited with {code}: {(out + err).decode('utf-8', 'replace')}"
        )
    return web.Response(body=out + err, content_type="application/json")


def wanted_of(request: web.BaseRequest) -> Wanted:
    flags = {name: request.query.get(name) == "1" for name in ("input", "output", "error", "tty")}
    streams = Wanted(
        stdin=flags["input"],
        stdout=flags["output"],
        stderr=flags["error"] and not flags["tty"],  # A terminal combines both outputs.
        tty=flags["tty"],
    )
    if not (streams.stdin or streams.stdout or streams.stderr):
        raise Refusal(400, "you must specify at least 1 of stdin, stdout, stderr")
    return streams


def _running(view: KubeletView, where: Sequence[str]) -> tuple[Pod, str]:
    *parts, container = where
    pod = pod_of(view, *parts)
    container_report = view.runtime.pod_report(pod).container(container)
    if container_report is None or container_report.state != RUNNING:
        raise Refusal(500, f'container not found ("{container}")')
    return pod, container


def _ports(request: web.BaseRequest) -> list[int]:
    texts = [text for value in request.query.getall("port", []) for text in value.split(",")]
    if not texts:
        raise Refusal(400, 'query parameter "port" is required')
    for text in texts:
        if not text:
            raise Refusal(400, 'query parameter "port" cannot be empty')
        if not (text.isascii() and text.isdecimal() and 0 < int(text[:6]) < 1 << 16):
            raise Refusal(400, f'unable to parse "{text}" as a port')
    return [int(text) for text in texts]


def _agreed(request: web.BaseRequest, spdy: Sequence[str], websocket: Sequence[str]) -> Agreement:
    def values(name: str) -> Sequence[str]:
        return request.headers.getall(name, [])

    if not handshake.is_upgrade(values):
        raise Refusal(400, "Upgrade request required")
    try:
        return handshake.agreed(values, spdy=spdy, websocket=websocket)
    except Refused as refused:
        raise Refusal(refused.code, refused.text) from None


async def _taken(request: web.BaseRequest, agreement: Agreement) -> TakenWire:
    wire = taken(request)
    await wire.write(agreement.head)
    return wire
