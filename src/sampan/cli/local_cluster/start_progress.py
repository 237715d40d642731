"""Prints the steps of a cluster start with their durations to standard error. On a terminal, the line of the current
step is updated in place.
"""

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
"""The number of first steps whose lines are held back: set-up, store and API server. A start fails in one of them if a
flag names a port or address that is in use."""
_LINE = re.compile(r"  (?P<name>.{14}) +(?P<took>\d+\.\d\d) s")


def process_start() -> float:
    """Return the time on the monotonic clock at which the command started, before its modules were imported."""
    began = click.get_current_context().find_object(float)
    return time.monotonic() if began is None else began


class StartProgress(Protocol):
    def begin(self, step: str) -> None:
        """Report that a step begins and that the step before it is done."""

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
    """Whether a line of a log is one that reports the duration of a start step."""
    return _LINE.fullmatch(line) is not None


class PrintedProgress:
    """Prints a line when a step is done. On a terminal, the line of the current step shows the seconds since it
    began."""

    def __init__(self) -> None:
        self._step, self._began = "", 0.0
        self._is_terminal = sys.stderr.isatty()
        self._tick: asyncio.TimerHandle | None = None
        self._held: list[str] | None = None if self._is_terminal else []
        """The lines of the first steps, which are printed only after all of these steps have succeeded. If one fails,
        the output is only its error."""

    def begin(self, step: str) -> None:
        self._finish()
        self._step, self._began = step, time.monotonic()
        self._show()

    def add(self, step: str, took_s: float) -> None:
        """Report a step that was done before this object was created."""
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
        """Show the current step, and schedule the next update if the event loop runs."""
        if not self._is_terminal:
            return
        click.echo(f"{_CLEAR}{step_line(self._step, time.monotonic() - self._began)} …", nl=False, err=True)
        with suppress(RuntimeError):  # the event loop does not run yet
            self._tick = asyncio.get_running_loop().call_later(_TICK_S, self._show)
