"""The process that holds the lock of a data directory: whether it is ending, and waiting for its end."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import click

from sampan.cli.local_cluster.cluster_dir import ClusterDir, ClusterLock, RunningCluster
from sampan.machinery.cli_errors import CliError

_ENDING_TIMEOUT_S = 15.0
"""How long a start waits for the end of the process that ran the cluster before."""
_POLL_S = 0.02
_PROBE_TIMEOUT_S = 1.0
_PF_EXITING = 0x4
_SIGKILL_BIT = 1 << 8


def acquire_lock(directory: ClusterDir, *, makes_file: bool = False) -> ClusterLock:
    """Acquire the lock of a data directory. If the process that holds it is ending, say so and wait for it. Raise
    CliError if the directory is in use."""
    lock, deadline, is_announced = directory.lock(), time.monotonic() + _ENDING_TIMEOUT_S, False
    note = directory.read_note() if directory.is_cluster else None
    while not lock.acquire(makes_file=makes_file):
        note = directory.read_note() or note
        if time.monotonic() > deadline or not _is_ending(note):
            raise CliError(_in_use_message(directory, note))
        if not is_announced:
            is_announced = True
            process = f"process {note.pid}" if note is not None else "a process"
            click.echo(f"waiting for {process} to end, which still uses {directory.path}", err=True)
        time.sleep(_POLL_S)
    if note is not None and is_exiting(note.pid):  # it has released the lock, but may still hold ports
        wait_for_exit(note.pid, _ENDING_TIMEOUT_S)
    return lock


def _is_ending(note: RunningCluster | None) -> bool:
    """Whether the process with the lock is about to release it: it was killed, or its API server no longer accepts
    connections. A process without a note starts or ends, which the time shows."""
    return note is None or is_exiting(note.pid) or not _accepts_connections(note)


def _accepts_connections(note: RunningCluster) -> bool:
    url = urlsplit(note.url or note.insecure_url)
    try:
        with socket.create_connection((url.hostname or "", url.port or 443), timeout=_PROBE_TIMEOUT_S):
            return True
    except TimeoutError:
        return True
    except OSError:
        return False


def _in_use_message(directory: ClusterDir, note: RunningCluster | None) -> str:
    who = f"by process {note.pid} at {note.url or note.insecure_url}" if note else "by another process"
    return f"--data-dir: {directory.path} is in use {who}; `sampan down` stops it, --name starts another cluster"


def is_exiting(pid: int) -> bool:
    """Whether a process has received SIGKILL or has begun to exit. A zombie has exited and holds nothing, unless only
    its first thread is one: the others still hold its files."""
    try:
        status = dict(line.split(":\t", 1) for line in _text(pid, "status").splitlines() if ":\t" in line)
        fields = _text(pid, "stat").rpartition(")")[2].split()
    except OSError:
        return False
    if not fields or (fields[0] in "ZX" and int(fields[17]) <= 1):
        return False
    pending = int(status.get("SigPnd", "0"), 16) | int(status.get("ShdPnd", "0"), 16)
    return bool(pending & _SIGKILL_BIT or int(fields[6]) & _PF_EXITING)


def _text(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text(errors="replace")


def wait_for_exit(pid: int, timeout_s: float) -> bool:
    """Wait until a process has exited; it need not have been reaped. Return False if the timeout passes first."""
    with watched_exit(pid) as wait:
        return wait(timeout_s)


@contextmanager
def watched_exit(pid: int) -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits until the process that has this ID now has exited, also if another process gets the
    ID. The function returns False if the given number of seconds passes first."""
    try:
        file = os.pidfd_open(pid)
    except OSError:
        yield lambda timeout_s: True
        return
    try:
        yield lambda timeout_s: bool(select.select([file], [], [], timeout_s)[0])
    finally:
        os.close(file)
