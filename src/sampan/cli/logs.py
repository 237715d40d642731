"""`sampan logs`: print the log of a detached cluster, of all components or of one."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from sampan.cli.local_cluster.cluster_dir import ClusterDir, running_cluster_options, select_cluster
from sampan.machinery.cli_errors import CliError

_PACKAGES = {
    "apiserver": ("sampan.apiserver", "sampan.storage"),
    "controllers": ("sampan.controllers", "sampan.machinery.control_loop.controller"),
    "scheduler": ("sampan.scheduler",),
    "kubelet": ("sampan.kubelet", "sampan.runtimes"),
    "proxy": ("sampan.network.proxy",),
    "dns": ("sampan.network.dns",),
    "network": ("sampan.network",),
}
"""The packages whose log lines belong to a component."""
_HEAD = re.compile(rb"\d{4}-\d\d-\d\d [\d:,]{8,12} (?P<level>[A-Z]+) (?P<logger>[\w.]+): ")
_POLL_S = 0.2
_LINE_BYTES = 1 << 16


@click.command("logs")
@click.argument("component", required=False, type=click.Choice(sorted(_PACKAGES)), metavar="[COMPONENT]")
@running_cluster_options
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they are written, until Ctrl-C.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Print only the last N lines.")
@click.option("--warnings", "only_warnings", is_flag=True, help="Print only warnings and errors.")
def command(
    component: str | None,
    data_dir: str | None,
    cluster: str | None,
    follow: bool,
    tail: int | None,
    only_warnings: bool,
) -> None:
    """Print the log of a cluster that runs in the background.

    COMPONENT selects the lines of one component: apiserver, controllers, scheduler, kubelet, proxy, dns or network.
    """
    directory = select_cluster(data_dir, cluster)
    selects = LogFilter(component, only_warnings=only_warnings)
    with _open(directory) as log:
        lines: Iterator[bytes] | deque[bytes] = (line for line in _lines(log) if selects.accepts(line))
        for line in deque(lines, maxlen=tail) if tail is not None else lines:
            click.echo(line, nl=False)
        while follow:
            for line in _lines(log):
                if selects.accepts(line):
                    click.echo(line, nl=False)
            if directory.read_note_if_running() is None:
                return
            time.sleep(_POLL_S)


class LogFilter:
    """Selects lines of the log. A line that does not start with a time continues the one before it."""

    def __init__(self, component: str | None, *, only_warnings: bool) -> None:
        self._packages = _PACKAGES[component] if component is not None else ()
        self._only_warnings = only_warnings
        self._is_accepted = component is None and not only_warnings

    def accepts(self, line: bytes) -> bool:
        if (head := _HEAD.match(line)) is not None:
            logger, level = head["logger"].decode(), head["level"]
            is_own = not self._packages or logger.startswith(self._packages)
            self._is_accepted = is_own and not (self._only_warnings and level in (b"INFO", b"DEBUG"))
        return self._is_accepted


def _open(directory: ClusterDir) -> BinaryIO:
    path: Path = directory.log
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise CliError(f"there is no log {path}; only a cluster started with `sampan up --detach` has one") from None
    except OSError as error:
        raise CliError(f"cannot read {path}: {error.strerror}") from None


def _lines(log: BinaryIO) -> Iterator[bytes]:
    while line := log.readline(_LINE_BYTES):
        yield line
