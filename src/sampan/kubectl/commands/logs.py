"""`kubectl logs`: print the logs of containers."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import click

from sampan.api.go_compat.gotext import quote
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import Session
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, changed_flags, duration_flag, int_flag, string_flag
from sampan.kubectl.command_line.shared_flags import selector_flag
from sampan.kubectl.errors import KubectlError, ServerError, UsageError
from sampan.kubectl.objects.pod_selection import (
    Pod,
    annotated_container,
    check_container,
    container_names,
    logging_order,
    pods_of_object,
    print_default_container,
    target_object,
)

_SELECTOR_TAIL_LINES = 10
_RETRY_INTERVAL_S = 1.0
_USAGE = """\
expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER]'.
POD or TYPE/NAME is a required argument for the logs command"""


@dataclass(frozen=True, slots=True)
class LogSource:
    """The log of a container."""

    path: str
    pod: str
    container: str

    @property
    def prefix(self) -> bytes:
        return f"[pod/{self.pod}/{self.container}] ".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsOptions:
    words: tuple[str, ...] = arguments()
    all_pods: bool = bool_flag("--all-pods", help="Print the logs of all pods of the object, each line with a prefix.")
    all_containers: bool = bool_flag("--all-containers", help="Print the logs of all containers of each pod.")
    follow: bool = bool_flag("-f", "--follow", help="Follow the log: keep printing new lines.")
    timestamps: bool = bool_flag("--timestamps", help="Print the time of each line.")
    limit_bytes: int = int_flag(
        "--limit-bytes", default=0, metavar="N", help="Largest number of bytes of logs to print."
    )
    previous: bool = bool_flag("-p", "--previous", help="Print the log of the previous instance of the container.")
    tail: int = int_flag(
        "--tail",
        default=-1,
        metavar="N",
        help="Number of most recent lines to print. Default: all, or 10 with a selector.",
    )
    ignore_errors: bool = bool_flag("--ignore-errors", help="Print errors between the logs and continue.")
    since_time: str = string_flag("--since-time", metavar="TIME", help="Print only lines newer than an RFC 3339 time.")
    since: float = duration_flag(
        "--since", default_s=0.0, metavar="T", help="Print only lines newer than a duration, for example 5s, 2m or 3h."
    )
    container: str = string_flag(
        "-c", "--container", metavar="C", help="Container name. Default: the first container of the pod."
    )
    insecure_skip_tls_verify_backend: bool = bool_flag(
        "--insecure-skip-tls-verify-backend", help="Let the API server not verify the certificate of the kubelet."
    )
    pod_running_timeout: float = duration_flag(
        "--pod-running-timeout",
        default_s=20.0,
        metavar="T",
        help="How long to wait for a pod of the object, for example 5s or 2m. Default: 20s.",
    )
    selector: str = selector_flag("Label selector of the pods whose logs are printed.")
    max_log_requests: int = int_flag(
        "--max-log-requests",
        default=5,
        metavar="N",
        help="Largest number of logs to follow at the same time. Default: 5.",
    )
    prefix: bool = bool_flag("--prefix", help="Prefix each line with the pod and container that it comes from.")
    changed_flags: frozenset[str] = changed_flags()


@KubectlCommand.define("logs", LogsOptions)
def command(factory: Factory, options: LogsOptions) -> None:
    """Print the logs of containers."""
    _check_words(options)
    if len(options.words) == 2:
        options = replace(options, container=options.words[1])
    query = _query(options)
    objects = _objects(factory, options.words, options.selector)
    if "container" in options.changed_flags and len(options.words) == 2:
        raise KubectlError("only one of -c or an inline [CONTAINER] arg is allowed")
    _check_values(options)
    sources = [source for obj in objects for source in _sources(factory.session, obj, options)]
    if options.follow and len(sources) > 1:
        if len(sources) > options.max_log_requests:
            raise KubectlError(
                f"you are attempting to follow {len(sources)} log streams, but maximum allowed concurrency is "
                f"{options.max_log_requests}, use --max-log-requests to increase the limit"
            )
        _follow_all(factory.session, sources, query, options)
        return
    for source in sources:
        _consume(factory.session, source, query, options, threading.Lock())


def _check_words(options: LogsOptions) -> None:
    words = options.words
    if len(words) > 2 or not (words or options.selector):
        raise UsageError(_USAGE)
    if len(words) == 1 and options.selector:
        raise UsageError("only a selector (-l) or a POD name is allowed")


def _check_values(options: LogsOptions) -> None:
    if options.since_time and options.since:
        raise KubectlError("at most one of `sinceTime` or `sinceSeconds` may be specified")
    if options.all_containers and options.container:
        raise KubectlError(f"--all-containers=true should not be specified with container name {options.container}")
    if options.limit_bytes < 0:
        raise KubectlError("--limit-bytes must be greater than 0")
    if options.since < 0:
        raise KubectlError("--since must be greater than 0")
    if options.tail < -1:
        raise KubectlError("--tail must be greater than or equal to -1")


def _query(options: LogsOptions) -> dict[str, str]:
    switches = {"follow": options.follow, "previous": options.previous, "timestamps": options.timestamps}
    query = {name: "true" for name, is_set in switches.items() if is_set}
    if options.insecure_skip_tls_verify_backend:
        query["insecureSkipTLSVerifyBackend"] = "true"
    if options.since_time:
        query["sinceTime"] = _check_time(options.since_time)
    if options.limit_bytes:
        query["limitBytes"] = str(options.limit_bytes)
    if options.since:
        query["sinceSeconds"] = str(round(options.since))
    if options.selector and "tail" not in options.changed_flags:
        query["tailLines"] = str(_SELECTOR_TAIL_LINES)
    elif options.tail != -1:
        query["tailLines"] = str(options.tail)
    return query


def _check_time(text: str) -> str:
    from sampan.api.values import times

    try:
        times.parse_time(text)
    except ValueError:
        layout = "2006-01-02T15:04:05Z07:00"
        raise KubectlError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"') from None
    return text


def _objects(factory: Factory, words: tuple[str, ...], selector: str) -> list[Pod]:
    if words:
        try:
            return [target_object(factory, words[0])]
        except ServerError as error:
            if not error.is_not_found:
                raise
            message = f'error from server (NotFound): {error.error.message} in namespace "{factory.namespace}"'
            raise KubectlError(message) from None
    path = f"/api/v1/namespaces/{factory.namespace}/pods"
    pods = factory.session.get(path, {"labelSelector": selector}).get("items") or []
    if not pods:
        click.echo(f"No resources found in {factory.namespace} namespace.", err=True)
    return [{"kind": "Pod", **pod} for pod in pods]


def _sources(session: Session, obj: Pod, options: LogsOptions) -> Iterator[LogSource]:
    timeout_s = options.pod_running_timeout
    pods, is_pod = pods_of_object(session, obj, "get the logs from", logging_order, timeout_s=timeout_s)
    if not options.all_pods:
        if len(pods) > 1 and not is_pod:
            click.echo(f"Found {len(pods)} pods, using pod/{pods[0]['metadata']['name']}", err=True)
        pods = pods[:1]
    for pod in pods:
        metadata = pod["metadata"]
        if options.all_containers:
            names = container_names(pod, "initContainers", "containers", "ephemeralContainers")
        else:
            names = [_container(pod, options.container, is_quiet=options.all_pods)]
        for name in names:
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
            yield LogSource(path, str(metadata["name"]), name)


def _container(pod: Pod, requested: str, *, is_quiet: bool) -> str:
    if not requested and (annotated := annotated_container(pod)):
        if annotated in container_names(pod, "containers", "initContainers", "ephemeralContainers"):
            return annotated
        click.echo(f"Default container name {quote(annotated)} not found in pod {pod['metadata']['name']}", err=True)
    if requested:
        return check_container(pod, requested)
    name = container_names(pod, "containers")[0]
    print_default_container(pod, name, is_quiet=is_quiet)
    return name


# -- reading ---------------------------------------------------------------------------------------------------------


def _follow_all(session: Session, sources: list[LogSource], query: Mapping[str, str], options: LogsOptions) -> None:
    """Follow several logs, each over a separate connection. The first error ends the command."""
    lock = threading.Lock()
    failures: list[Exception] = []
    is_over = threading.Semaphore(0)

    def follow(source: LogSource) -> None:
        try:
            _consume(session.open_another(), source, query, options, lock)
        except (click.ClickException, OSError) as error:  # OSError is raised if the reader of the output is gone
            failures.append(error)
        is_over.release()

    for source in sources:
        threading.Thread(target=follow, args=(source,), daemon=True).start()
    for _ in sources:
        is_over.acquire()
        if failures:
            raise failures[0]


class LostLogError(KubectlError):
    """The connection ended before the end of the log."""


def _consume(
    session: Session, source: LogSource, query: Mapping[str, str], options: LogsOptions, lock: threading.Lock
) -> None:
    """Print a log. With --follow, reconnect when the connection is lost, and retry after an error of the server until
    --pod-running-timeout has passed."""
    deadline = time.monotonic() + options.pod_running_timeout
    while True:
        try:
            _print_log(session, source, query, options.prefix or options.all_pods, lock)
            return
        except (ServerError, KubectlError) as error:
            if options.ignore_errors:
                with lock:
                    sys.stdout.buffer.write(f"error: {error.message}\n".encode())
                    sys.stdout.buffer.flush()
                return
            if not options.follow:
                raise
            click.echo(error.message, err=True)
            if isinstance(error, LostLogError):
                session.close()
                query = _continue_query(query)
                deadline = time.monotonic() + options.pod_running_timeout
            elif not isinstance(error, ServerError):
                raise
            if time.monotonic() + _RETRY_INTERVAL_S > deadline:
                raise KubectlError("context deadline exceeded") from None
            time.sleep(_RETRY_INTERVAL_S)


def _continue_query(query: Mapping[str, str]) -> dict[str, str]:
    """Return the query with which a new connection continues a log: only lines from now on."""
    from datetime import UTC, datetime

    parameters = {key: value for key, value in query.items() if key not in ("tailLines", "sinceSeconds", "limitBytes")}
    return {**parameters, "sinceTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


def _print_log(
    session: Session, source: LogSource, query: Mapping[str, str], has_prefix: bool, lock: threading.Lock
) -> None:
    import http.client

    prefix = source.prefix if has_prefix else b""
    pieces, line_start = session.pieces(source.path, {"container": source.container, **query}), b""
    while True:
        try:
            piece = next(pieces, b"")
        except (OSError, http.client.HTTPException) as error:
            _write_lines(line_start, prefix, lock)
            raise LostLogError(f"lost connection to the log of {source.pod}: {error}") from None
        if not piece:
            _write_lines(line_start, prefix, lock)
            return
        lines, newline, line_start = (line_start + piece).rpartition(b"\n")
        _write_lines(lines + newline, prefix, lock)


def _write_lines(data: bytes, prefix: bytes, lock: threading.Lock) -> None:
    """Write complete lines, so that those of several logs do not mix."""
    if data:
        text = b"".join(prefix + line for line in data.splitlines(keepends=True)) if prefix else data
        with lock:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
