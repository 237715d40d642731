"""Start a cluster in a background process, and wait until it is ready."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence

import click

from sampan.cli.cluster_dir import ClusterDir, Running
from sampan.cli.failures import CliError
from sampan.cli.start_progress import is_step_line

_PATIENCE_S = 60
_LOOK_EVERY_S = 0.01
_MARK = "Error: "


class Failed(CliError):
    """The process exited before the cluster was ready."""


def start(where: ClusterDir, arguments: Sequence[str], *, shows_steps: bool) -> Running:
    """Run `sampan ARGUMENTS` in the background, and return its description once it is ready. With `shows_steps` the
    steps of its start are printed as they appear in its log."""
    with where.log.open("ab") as log:
        where.log.chmod(0o600)
        began = where.log.stat().st_size
        process = subprocess.Popen(
            [sys.executable, "-m", "sampan", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline, steps = time.monotonic() + _PATIENCE_S, _StepLines(where, began)
    while time.monotonic() < deadline:
        note = where.read_note()
        if shows_steps:
            steps.print_new()
        if note is not None and note.pid == process.pid:
            return note
        if process.poll() is not None:
            raise Failed(
                _last_words(where, began) or f"the process of the cluster exited with code {process.returncode}"
            )
        time.sleep(_LOOK_EVERY_S)
    process.terminate()
    raise CliError(f"the cluster was not ready within {_PATIENCE_S} s; see {where.log}")


class _StepLines:
    """The lines of the log that say how long the steps of the start took."""

    def __init__(self, where: ClusterDir, began: int) -> None:
        self._path, self._position = where.log, began

    def print_new(self) -> None:
        with self._path.open("rb") as log:
            log.seek(self._position)
            data = log.read(1 << 16)
        complete = data[: data.rfind(b"\n") + 1]
        self._position += len(complete)
        for line in complete.decode(errors="replace").splitlines():
            if is_step_line(line):
                click.echo(line, err=True)


def _last_words(where: ClusterDir, began: int) -> str:
    """Return the last error in the part of the log that belongs to this start."""
    lines = where.log.read_bytes()[began:].decode(errors="replace").strip().splitlines()
    errors = [at for at, line in enumerate(lines) if line.startswith(_MARK)]
    return "\n".join(lines[errors[-1] :] if errors else lines).removeprefix(_MARK)
