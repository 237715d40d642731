"""The /containerLogs endpoint: parses the query and yields the log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from sampan.api import times
from sampan.api.types.core_v1 import Pod
from sampan.kubelet.logs.reading import read
from sampan.kubelet.logs.shown import ALL, LogOptions
from sampan.kubelet.logs.source import LogUnavailable, log_container
from sampan.kubelet.server.view import KubeletView, Refusal, spec_of
from sampan.machinery.clock import Clock
from sampan.runtimes.contract import RUNNING

_STREAMS = (ALL, "Stdout", "Stderr")
_NANO = 1_000_000_000


def log_options(query: Mapping[str, str], now: float) -> LogOptions:
    """Return the options of the query. Raise Refusal if they are invalid."""
    tail = query.get("tailLines", "")
    if old := query.get("tail", ""):
        tail = "" if old == "all" else old
    numbers = [_number(text) for text in (tail, query.get("limitBytes", ""), query.get("sinceSeconds", ""))]
    lines, limit, seconds = numbers
    since = query.get("sinceTime", "")
    stream = query.get("stream") or ALL
    is_wrong = (lines or 0) < 0 or (limit is not None and limit < 1) or (seconds is not None and seconds < 1)
    if is_wrong or (seconds is not None and since) or stream not in _STREAMS:
        raise Refusal(422, '{"message": "Invalid request."}')
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
        raise Refusal(400, '{"message": "Unable to decode query."}') from None


def _time_ns(text: str) -> int | None:
    try:
        return int(times.parse_time(text) * _NANO) if text else None
    except times.TimeError:
        raise Refusal(400, '{"message": "Unable to decode query."}') from None


def _flag(query: Mapping[str, str], name: str) -> bool:
    return name in query and query[name].lower() not in ("0", "false")


async def container_log(
    view: KubeletView, clock: Clock, namespace: str, name: str, container: str, query: Mapping[str, str]
) -> AsyncIterator[bytes]:
    """Yield the log in pieces. An empty first piece confirms that there is a log; Refusal is raised before it."""
    options = log_options(query, clock.now())
    pod = view.find(namespace, name)
    if pod is None:
        raise Refusal(404, f'pod "{name}" does not exist')
    if spec_of(pod, container) is None:
        raise Refusal(404, f'container "{container}" not found in pod "{name}"')
    try:
        id = log_container(name, pod.status, container, is_previous=options.is_previous)
    except LogUnavailable as none:
        raise Refusal(400, str(none)) from None
    yield b""
    async for piece in _pieces(view, pod, container, id, options):
        yield piece


async def _pieces(view: KubeletView, pod: Pod, container: str, id: str, options: LogOptions) -> AsyncIterator[bytes]:
    runtime = view.runtime
    before = runtime.pod_report(pod).previous(container)
    is_previous = before is not None and before.id == id
    path = runtime.log_file(pod, container, previous=is_previous)
    if path is None:
        if (log_text := getattr(runtime, "log_text", None)) is not None:  # A hollow runtime has no log files.
            for piece in _of_text(log_text(pod, container), options):
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


def _of_text(text: str, options: LogOptions) -> list[bytes]:
    """Apply the options to the log of a hollow container, which has no timestamps."""
    lines = text.encode().splitlines(keepends=True)
    if options.tail_lines is not None:
        lines = lines[len(lines) - options.tail_lines :] if options.tail_lines else []
    return [b"".join(lines)[: options.limit_bytes]]
