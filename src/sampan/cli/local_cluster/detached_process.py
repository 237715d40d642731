"""Start a cluster in a background process, and wait until it is ready."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import BinaryIO

import click

from sampan.cli.local_cluster.cluster_dir import ClusterDir, RunningCluster
from sampan.cli.local_cluster.start_progress import is_step_line
from sampan.machinery.cli_errors import CliError

_SILENCE_TIMEOUT_S = 90
"""How long a start may add nothing to its log before it is stopped. It reports by itself, and earlier, if its nodes
are not ready."""
_POLL_S = 0.01
_MARK = "Error: "
_MAX_DESCRIPTORS = 1 << 16


class ClusterStartFailed(CliError):
    """The process of the cluster exited before the cluster was ready."""


def start(directory: ClusterDir, arguments: Sequence[str]) -> RunningCluster:
    """Run `sampan ARGUMENTS` in a new background process, and return the description of the cluster once it is
    ready."""
    log, began = _open_log(directory)
    with log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sampan", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return _wait_until_ready(directory, began, process.pid, shows_steps=False)


def fork(directory: ClusterDir, *, shows_steps: bool) -> RunningCluster | None:
    """Fork, and continue in the background. Return None in the new process. In this process, return the description of
    the cluster once it is ready. With `shows_steps`, print the steps of the start as they appear in its log.

    A forked process has imported all modules already; the imports take half of the time of a start.
    """
    log, began = _open_log(directory)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _become_background_process(log)
        return None
    log.close()
    return _wait_until_ready(directory, began, pid, shows_steps=shows_steps)


def _open_log(directory: ClusterDir) -> tuple[BinaryIO, int]:
    """Open the log of the cluster for appending. Return the file and its current size."""
    log = directory.log.open("ab")
    directory.log.chmod(0o600)
    return log, os.fstat(log.fileno()).st_size


def _become_background_process(log: BinaryIO) -> None:
    """Leave the session of the terminal, and redirect standard output and standard error to the log. Close all
    inherited file descriptors, because the cluster would keep a pipe of its caller open for ever."""
    os.setsid()
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    log.close()
    os.closerange(3, _MAX_DESCRIPTORS)


def _wait_until_ready(directory: ClusterDir, began: int, pid: int, *, shows_steps: bool) -> RunningCluster:
    changed_at, size, steps = time.monotonic(), 0, _StepLines(directory, began)
    try:
        while time.monotonic() < changed_at + _SILENCE_TIMEOUT_S:
            if (new_size := directory.log.stat().st_size) != size:
                changed_at, size = time.monotonic(), new_size
            note = directory.read_note()
            if shows_steps:
                steps.print_new()
            if note is not None and note.pid == pid:
                return note
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                raise ClusterStartFailed(
                    _read_last_error(directory, began) or f"the process of the cluster exited with code {code}"
                )
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        raise
    os.kill(pid, signal.SIGTERM)
    raise CliError(f"the start of the cluster made no progress for {_SILENCE_TIMEOUT_S} s; see {directory.log}")


class _StepLines:
    """Prints the lines of the log that say how long each step of the start took."""

    def __init__(self, directory: ClusterDir, began: int) -> None:
        self._path, self._position = directory.log, began

    def print_new(self) -> None:
        with self._path.open("rb") as log:
            log.seek(self._position)
            data = log.read(1 << 16)
        complete = data[: data.rfind(b"\n") + 1]
        self._position += len(complete)
        for line in complete.decode(errors="replace").splitlines():
            if is_step_line(line):
                click.echo(line, err=True)


def _read_last_error(directory: ClusterDir, began: int) -> str:
    """Return the last error in the part of the log that belongs to this start; `began` is the offset of its first
    byte."""
    lines = directory.log.read_bytes()[began:].decode(errors="replace").strip().splitlines()
    errors = [index for index, line in enumerate(lines) if line.startswith(_MARK)]
    return "\n".join(lines[errors[-1] :] if errors else lines).removeprefix(_MARK)
