"""`kubectl logs`: print the logs of containers."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import click

from sampan.api import durations
from sampan.cli.failures import CliError
from sampan.cli.kubectl.chosen_pods import chosen_container, chosen_pod, container_names, pods_of
from sampan.cli.kubectl.command import KubectlCommand
from sampan.cli.kubectl.factory import Factory
from sampan.cli.kubectl.session import Session

_TAIL_OF_SELECTED = 10
_AT_ONCE = 5
_USAGE = """\
expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER]'.
POD or TYPE/NAME is a required argument for the logs command"""


@click.command("logs", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.option(
    "-c", "--container", default="", metavar="C", help="Container name. Default: the first container of the pod."
)
@click.option("-f", "--follow", is_flag=True, help="Follow the log: keep printing new lines.")
@click.option("-p", "--previous", is_flag=True, help="Print the log of the previous instance of the container.")
@click.option("--tail", type=int, metavar="N", help="Number of most recent lines to print.")
@click.option(
    "--since", default="", metavar="T", help="Print only lines newer than a duration, for example 5s, 2m or 3h."
)
@click.option("--since-time", default="", metavar="TIME", help="Print only lines newer than an RFC 3339 time.")
@click.option("--timestamps", is_flag=True, help="Print the time of each line.")
@click.option("--limit-bytes", type=int, default=0, metavar="N", help="Largest number of bytes of logs to print.")
@click.option("-l", "--selector", default="", help="Label selector of the pods whose logs are printed.")
@click.option("--all-containers", is_flag=True, help="Print the logs of all containers of each pod.")
@click.option("--prefix", is_flag=True, help="Prefix each line with the pod and container that it comes from.")
@click.option(
    "--max-log-requests",
    type=int,
    default=_AT_ONCE,
    show_default=True,
    help="Largest number of logs to follow at the same time.",
)
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Print the logs of containers.

    \b
    Examples:
      sampan kubectl logs POD
      sampan kubectl logs deploy/web -f
      sampan kubectl logs -l app=web --all-containers
    """
    session = factory.session
    if not (words or options["selector"]):
        raise CliError(_USAGE)
    if len(words) == 2 and not options["container"]:
        options["container"] = words[1]
    sources = list(_sources(session, words, options))
    query = _query(options, is_selected=bool(options["selector"]))
    if options["follow"] and len(sources) > 1:
        if len(sources) > options["max_log_requests"]:
            raise CliError(
                f"you are attempting to follow {len(sources)} log streams, but maximum allowed concurrency is "
                f"{options['max_log_requests']}, use --max-log-requests to increase the limit"
            )
        _together(session, sources, query, options["prefix"])
        return
    for path, prefix in sources:
        _show(session, path, query, prefix if options["prefix"] else "")


def _sources(session: Session, words: tuple[str, ...], options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the path of each log, and the prefix of its lines."""
    pods = pods_of(session, options["selector"]) if options["selector"] else [chosen_pod(session, words[0])]
    for pod in pods:
        if options["all_containers"]:
            names = container_names(pod)
        else:
            names = [chosen_container(pod, options["container"], is_quiet=bool(options["selector"]))]
        for name in names:
            where = pod["metadata"]
            path = f"/api/v1/namespaces/{where['namespace']}/pods/{where['name']}/log?container={name}"
            yield path, f"[pod/{where['name']}/{name}] "


def _query(options: Mapping[str, Any], *, is_selected: bool) -> dict[str, str]:
    if options["since"] and options["since_time"]:
        raise CliError("at most one of `sinceTime` or `sinceSeconds` may be specified")
    query = {name: "true" for name in ("follow", "previous", "timestamps") if options[name]}
    tail = options["tail"] if options["tail"] is not None else _TAIL_OF_SELECTED if is_selected else -1
    if tail >= 0:
        query["tailLines"] = str(tail)
    if options["since"]:
        try:
            seconds = durations.parse_duration(options["since"]) / durations.SECOND
        except durations.DurationError as error:
            raise CliError(f'invalid argument "{options["since"]}" for "--since" flag: {error}') from None
        query["sinceSeconds"] = str(max(int(seconds + 0.999), 1))
    if options["since_time"]:
        query["sinceTime"] = options["since_time"]
    if options["limit_bytes"]:
        query["limitBytes"] = str(options["limit_bytes"])
    return query


def _show(session: Session, path: str, query: Mapping[str, str], prefix: str) -> None:
    out = sys.stdout.buffer
    for piece in session.pieces(*_split(path, query), is_lines=bool(prefix)):
        out.write(prefix.encode() + piece)
        out.flush()


def _split(path: str, query: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    plain, _, container = path.partition("?container=")
    return plain, {"container": container, **query}


def _together(session: Session, sources: list[tuple[str, str]], query: Mapping[str, str], has_prefix: bool) -> None:
    """Follow several logs, each over a separate connection."""
    lock = threading.Lock()

    def follow(path: str, prefix: str) -> None:
        for piece in session.another().pieces(*_split(path, query), is_lines=True):
            with lock:
                sys.stdout.buffer.write((prefix.encode() if has_prefix else b"") + piece)
                sys.stdout.buffer.flush()

    threads = [threading.Thread(target=follow, args=source, daemon=True) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
