"""The /containerLogs and /logs/ endpoints: the log of a container, and files of the node's log directory."""

from __future__ import annotations

import asyncio
import html
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import quote

from sampan.api.types.core_v1 import ContainerStatus, Pod, PodStatus
from sampan.api.values import times
from sampan.host.clock import Clock
from sampan.host.http import HttpRequest, HttpResponse, StreamResponse
from sampan.kubelet.logs.lines import ALL, LogOptions
from sampan.kubelet.logs.reader import read
from sampan.kubelet.server.view import ErrorResponse, KubeletView, spec_of
from sampan.runtimes.contract import RUNNING

_STREAMS = (ALL, "Stdout", "Stderr")
_NANO = 1_000_000_000
_PIECE = 64 << 10


def log_options(query: Mapping[str, str], now: float) -> LogOptions:
    """Return the log options in the query of a request. Raise ErrorResponse if they are invalid."""
    tail = query.get("tailLines", "")
    if old := query.get("tail", ""):
        tail = "" if old == "all" else old
    numbers = [_number(text) for text in (tail, query.get("limitBytes", ""), query.get("sinceSeconds", ""))]
    lines, limit, seconds = numbers
    since = query.get("sinceTime", "")
    stream = query.get("stream") or ALL
    is_wrong = (lines or 0) < 0 or (limit is not None and limit < 1) or (seconds is not None and seconds < 1)
    if is_wrong or (seconds is not None and since) or stream not in _STREAMS:
        raise ErrorResponse(422, '{"message": "Invalid request."}')
    return LogOptions(
        is_following=_flag(query, "follow"),
        is_previous=_flag(query, "previous"),
        tail_lines=lines,
        since_ns=int((now - seconds) * _NANO) if seconds is not None else _time_ns(since),
        has_timestamps=_flag(query, "timestamps"),
        limit_bytes=limit,
        stream=stream,
    )


def _number(text: str) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        raise ErrorResponse(400, '{"message": "Unable to decode query."}') from None


def _time_ns(text: str) -> int | None:
    try:
        return int(times.parse_time(text) * _NANO) if text else None
    except times.TimeError:
        raise ErrorResponse(400, '{"message": "Unable to decode query."}') from None


def _flag(query: Mapping[str, str], name: str) -> bool:
    return name in query and query[name].lower() not in ("0", "false")


async def container_log(
    view: KubeletView, clock: Clock, namespace: str, name: str, container: str, query: Mapping[str, str]
) -> AsyncIterator[bytes]:
    """Yield the log in pieces. An empty first piece confirms that there is a log; ErrorResponse is raised before it."""
    options = log_options(query, clock.now())
    pod = view.find(namespace, name)
    if pod is None:
        raise ErrorResponse(404, f'pod "{name}" does not exist')
    if spec_of(pod, container) is None:
        raise ErrorResponse(404, f'container "{container}" not found in pod "{name}"')
    try:
        id = log_container(name, pod.status, container, is_previous=options.is_previous)
    except LogUnavailable as error:
        raise ErrorResponse(400, str(error)) from None
    yield b""
    async for piece in _pieces(view, pod, container, id, options):
        yield piece


async def _pieces(view: KubeletView, pod: Pod, container: str, id: str, options: LogOptions) -> AsyncIterator[bytes]:
    runtime = view.runtime
    before = runtime.pod_report(pod).previous(container)
    is_previous = before is not None and before.id == id
    path = runtime.log_file(pod, container, previous=is_previous)
    if path is None:
        if (text := runtime.log_text(pod, container)) is not None:
            for piece in _apply_options(text, options):
                yield piece
        return

    def is_running() -> bool:
        container_report = runtime.pod_report(pod).container(container)
        return container_report is not None and container_report.id == id and container_report.state == RUNNING

    try:
        async for piece in read(path, options, is_running=is_running):
            yield piece
    except FileNotFoundError:
        yield f"unable to retrieve container logs for {id}".encode()


def _apply_options(text: str, options: LogOptions) -> list[bytes]:
    """Apply the options to the log of a hollow container, which has no timestamps."""
    lines = text.encode().splitlines(keepends=True)
    if options.tail_lines is not None:
        lines = lines[len(lines) - options.tail_lines :] if options.tail_lines else []
    return [b"".join(lines)[: options.limit_bytes]]


async def node_log(directory: Path, path_in_directory: str, request: HttpRequest) -> StreamResponse | None:
    """Serve a file or a directory listing of the node's logs. Neither the path nor a symbolic link can leave the
    directory.
    """
    path = _resolve(directory, path_in_directory)
    if path.is_dir():
        if not request.path.endswith("/"):
            return HttpResponse(status=301, headers={"Location": f"{request.path}/"})
        return HttpResponse(text=_render_directory(path), content_type="text/html")
    if not path.is_file():
        raise ErrorResponse(404, "404 page not found\n")
    return await _send_file(path, request)


def _resolve(directory: Path, relative: str) -> Path:
    root = directory.resolve()
    path = (root / relative.lstrip("/")).resolve()
    if not path.is_relative_to(root):
        raise ErrorResponse(404, "404 page not found\n")
    return path


async def _send_file(path: Path, request: HttpRequest) -> StreamResponse:
    """Send the bytes that the file has now; it may grow meanwhile."""
    response = StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
    with await asyncio.to_thread(path.open, "rb") as file:
        remaining = response.content_length = os.fstat(file.fileno()).st_size
        response.start(request)
        while remaining and request.method != "HEAD":
            piece = await asyncio.to_thread(file.read, min(remaining, _PIECE))
            if not piece:
                request.abort()
                raise ConnectionError(f"{path} was truncated")
            remaining -= len(piece)
            await response.write(piece)
    return response


def _render_directory(directory: Path) -> str:
    names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in directory.iterdir())
    links = (f'<a href="{quote(name)}">{html.escape(name)}</a>\n' for name in names)
    return f'<!doctype html>\n<meta name="viewport" content="width=device-width">\n<pre>\n{"".join(links)}</pre>\n'


_PULLS = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class LogUnavailable(Exception):
    """The container has no log to show; the message says why."""


def container_status(status: PodStatus, name: str) -> ContainerStatus | None:
    statuses = (*status.containerStatuses, *status.initContainerStatuses, *status.ephemeralContainerStatuses)
    return next((container for container in statuses if container.name == name), None)


def log_container(pod: str, status: PodStatus, name: str, *, is_previous: bool) -> str:
    """Return the ID of the container instance whose log is requested. Raise LogUnavailable if it has no log."""
    container = container_status(status, name)
    if container is None:
        raise LogUnavailable(f'container "{name}" in pod "{pod}" is not available')
    last, state = container.lastState.terminated, container.state
    last_id = last.containerID if last is not None else ""
    if is_previous:
        if not last_id:
            raise LogUnavailable(f'previous terminated container "{name}" in pod "{pod}" not found')
        return last_id
    if state.running is not None:
        return container.containerID
    if state.terminated is not None or last is not None:
        own = state.terminated.containerID if state.terminated is not None else ""
        if not (own or last_id):
            raise LogUnavailable(f'container "{name}" in pod "{pod}" is terminated')
        return own or last_id
    if state.waiting is not None:
        reason = state.waiting.reason
        raise LogUnavailable(f'container "{name}" in pod "{pod}" is waiting to start: {_PULLS.get(reason, reason)}')
    raise LogUnavailable(f'container "{name}" in pod "{pod}" is waiting to start - no logs yet')
