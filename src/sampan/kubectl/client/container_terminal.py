"""Run a process of a container on this terminal, for exec, attach and debug: raw mode of the terminal, changes of its
size, and the session.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import click

from sampan.kubectl.client.session import Session
from sampan.kubectl.client.sockets import Query, run_process, standard_input
from sampan.kubectl.errors import KubectlError, SilentExit
from sampan.machinery.multiplex.remote_command import exit_code


class DetachKeysPressed(Exception):
    """The user has typed the keys that end a session."""


def check_terminal(*, has_stdin: bool, has_tty: bool, is_quiet: bool) -> bool:
    """Whether the session runs on this terminal in raw mode. Print a message if a terminal is requested and standard
    input is none."""
    if not has_stdin or not has_tty:
        return False
    if not is_terminal():
        if not is_quiet:
            click.echo("Unable to use a TTY - input is not a terminal or the right kind of file", err=True)
        return False
    return True


def run(
    session: Session,
    path: str,
    query: Query,
    *,
    has_stdin: bool,
    has_tty: bool,
    is_quiet: bool = False,
    detach_keys: bytes = b"",
) -> None:
    """Run the process until it exits, and exit with its exit code. `query` names the container and the command."""
    is_raw = check_terminal(has_stdin=has_stdin, has_tty=has_tty, is_quiet=is_quiet)
    streams = [("stdin", "true")] if has_stdin else []
    streams.append(("tty", "true") if is_raw else ("stderr", "true"))
    try:
        with raw_mode() if is_raw else nullcontext():
            keys = detach_keys if is_raw else b""
            status = asyncio.run(_run(session, path, [*query, *streams], has_stdin, is_raw, keys))
    except BaseExceptionGroup as group:
        if group.subgroup(DetachKeysPressed) is None:
            raise
        return
    finish(status)


async def _run(
    session: Session, path: str, query: Query, has_stdin: bool, is_raw: bool, detach_keys: bytes
) -> dict[str, Any]:
    stdin = _input(detach_keys) if has_stdin else None
    sizes = terminal_sizes() if is_raw else None
    try:
        return await run_process(session, path, query, _write, stdin=stdin, sizes=sizes)
    except ConnectionError as error:
        raise KubectlError(f"lost connection to pod: {error}") from None


async def _input(detach_keys: bytes) -> AsyncIterator[bytes]:
    recent = b""
    async for data in standard_input():
        recent = (recent + data)[-max(len(detach_keys), 1) :]
        if detach_keys and recent == detach_keys:
            raise DetachKeysPressed
        yield data


def detach_sequence(text: str) -> bytes:
    """Return the bytes of keys such as `ctrl-p,ctrl-q`."""
    data = b""
    for key in (text or "ctrl-p,ctrl-q").split(","):
        control = key.removeprefix("ctrl-")
        if len(key) == 1:
            data += key.encode()
        elif key.startswith("ctrl-") and len(control) == 1 and (control.isalpha() or control in "@[\\]^_"):
            data += bytes([ord(control.lower() if control.isalpha() else control) & 0x1F])
        else:
            raise KubectlError(f"could not bind detach keys: Unknown character: '{key}'")
    return data


def _write(number: int, data: bytes) -> None:
    out = sys.stdout.buffer if number == 1 else sys.stderr.buffer
    out.write(data)
    out.flush()


def finish(status: dict[str, Any]) -> None:
    code = exit_code(status)
    if code is None:
        raise KubectlError(status.get("message") or "the command failed")
    if code:
        click.echo(f"command terminated with exit code {code}", err=True)
        raise SilentExit(code)


def is_terminal() -> bool:
    return sys.stdin.isatty()


@contextmanager
def raw_mode() -> Iterator[None]:
    """Switch the terminal to raw mode for the duration of the block. Characters that were typed before are not
    discarded."""
    import termios
    import tty

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    try:
        tty.setraw(file, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


async def terminal_sizes() -> AsyncIterator[tuple[int, int]]:
    """Yield the current size of the terminal as columns and lines, and the new size after each change."""
    changed, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            size = os.get_terminal_size(sys.stdin.fileno())
            yield size.columns, size.lines
            await changed.wait()
            changed.clear()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
