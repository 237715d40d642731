"""Run a process of a container on this terminal, for exec and attach."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import click

from sampan.cli.failures import CliError
from sampan.cli.kubectl import terminal
from sampan.cli.kubectl.session import Session
from sampan.cli.kubectl.sockets import open_socket, standard_input
from sampan.machinery.multiplex import remote_command as client

Query = Sequence[tuple[str, str]]


def run(session: Session, path: str, query: Query, *, has_stdin: bool, has_tty: bool) -> None:
    """Run the process until it exits, and exit with its exit code."""
    if has_tty and not terminal.is_terminal():
        click.echo("Unable to use a TTY - input is not a terminal or the right kind of file", err=True)
        has_tty = False
        query = [pair for pair in query if pair[0] not in ("tty", "stderr")] + [("stderr", "true")]
    with terminal.raw() if has_tty else nullcontext():
        status = asyncio.run(_run(session, path, query, has_stdin, has_tty))
    finish(status)


async def _run(session: Session, path: str, query: Query, has_stdin: bool, has_tty: bool) -> dict[str, Any]:
    socket = await open_socket(session, path, query, client.PROTOCOLS)
    stdin = standard_input() if has_stdin else None
    sizes = terminal.sizes() if has_tty else None
    try:
        return await client.run_client(socket, _write, stdin=stdin, sizes=sizes)
    except ConnectionError as error:
        raise CliError(f"lost connection to pod: {error}") from None


def _write(number: int, data: bytes) -> None:
    out = sys.stdout.buffer if number == 1 else sys.stderr.buffer
    out.write(data)
    out.flush()


def finish(status: dict[str, Any]) -> None:
    code = client.exit_code(status)
    if code is None:
        raise CliError(status.get("message") or "the command failed")
    if code:
        click.echo(f"command terminated with exit code {code}", err=True)
        raise SystemExit(code)
