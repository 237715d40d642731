"""The steps of a start with their durations, on standard error: in place on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from contextlib import suppress
from typing import Protocol

import click

_TICK_S = 0.1
_CLEAR = "\r\033[K"
_WIDTH = 14
_HELD_STEPS = 3
"""The first steps, with which a start fails if a flag names a port or address that is in use: the set-up, the store
and the API server."""
_LINE = re.compile(r"  (?P<name>.{14}) +(?P<took>\d+\.\d\d) s")


def process_start() -> float:
    """Return when the command started, on the monotonic clock: before its modules were imported."""
    began = click.get_current_context().find_object(float)
    return time.monotonic() if began is None else began


class StartProgress(Protocol):
    def begin(self, step: str) -> None:
        """A step begins, and the one before it is done."""

    def end(self) -> None:
        """Mark the last step of the start as done."""


class NoProgress:
    def begin(self, step: str) -> None:
        return None

    def end(self) -> None:
        return None


def step_line(step: str, took_s: float) -> str:
    return f"  {step:<{_WIDTH}} {took_s:5.2f} s"


def is_step_line(line: str) -> bool:
    """Whether the line of a log is one that a start has printed for a step."""
    return _LINE.fullmatch(line) is not None


class PrintedProgress:
    """Prints a line when a step is done. On a terminal the line of the current step shows the seconds so far."""

    def __init__(self) -> None:
        self._step, self._began = "", 0.0
        self._is_terminal = sys.stderr.isatty()
        self._tick: asyncio.TimerHandle | None = None
        self._held: list[str] | None = None if self._is_terminal else []
        """The lines of the first steps, which are printed only if these succeed: an error is one line."""

    def begin(self, step: str) -> None:
        self._finish()
        self._step, self._began = step, time.monotonic()
        self._show()

    def add(self, step: str, took_s: float) -> None:
        """A step is done that began before the progress was shown."""
        self._print(step_line(step, took_s))

    def end(self) -> None:
        self._finish()
        self._step = ""
        self._release()

    def _finish(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        if self._step:
            self._print(step_line(self._step, time.monotonic() - self._began))

    def _print(self, line: str) -> None:
        if self._held is None:
            click.echo(f"{_CLEAR}{line}" if self._is_terminal else line, err=True)
            return
        self._held.append(line)
        if len(self._held) == _HELD_STEPS:
            self._release()

    def _release(self) -> None:
        lines, self._held = self._held or [], None
        for line in lines:
            self._print(line)

    def _show(self) -> None:
        """Show the current step, and again while the event loop runs."""
        if not self._is_terminal:
            return
        click.echo(f"{_CLEAR}{step_line(self._step, time.monotonic() - self._began)} …", nl=False, err=True)
        with suppress(RuntimeError):  # before the event loop runs
            self._tick = asyncio.get_running_loop().call_later(_TICK_S, self._show)
