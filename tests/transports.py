"""Detection of connections that a test leaves open, with the test that opened them.

Python notices a transport that is not closed only when it is garbage-collected, which may be many tests later: the
ResourceWarning then fails an unrelated test. So every transport and client session is recorded with the running test
and the lines that created it, and a leak is reported with these.
"""

import asyncio.selector_events
import asyncio.sslproto
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

_ROOT = f"{Path(__file__).resolve().parent.parent}/"
_FRAMES = 4
_LEFT_OUT = (f"{_ROOT}.venv/", __file__)

_created_at: dict[int, str] = {}
"""Keyed by id, because weak references to objects of a collected cycle are cleared before `__del__` runs."""
_leaked: list[str] = []


def watch() -> None:
    """Record from now on who opens connections, and report leaks by `take_leaks` instead of a ResourceWarning."""
    _patch(asyncio.selector_events._SelectorTransport, _has_socket, _close)  # type: ignore[attr-defined]
    _patch(asyncio.sslproto._SSLProtocolTransport, lambda transport: not transport._closed)
    _patch(socket.socket, lambda connection: connection.fileno() != -1, lambda connection: connection.close())
    _patch(asyncio.StreamWriter, lambda writer: not writer.transport.is_closing())
    _patch(aiohttp.ClientSession, lambda session: not session.closed, lambda session: session.detach())


def take_leaks() -> list[str]:
    """Return and forget the connections that were collected without having been closed."""
    leaks, _leaked[:] = list(_leaked), []
    return leaks


def _patch(cls: Any, is_open: Callable[[Any], bool], close: Callable[[Any], None] = lambda obj: None) -> None:
    make, collect = cls.__init__, getattr(cls, "__del__", lambda obj: None)

    def init(self: Any, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        _created_at[id(self)] = _origin()

    def delete(self: Any) -> None:
        origin = _created_at.pop(id(self), "opened before the first call of watch()")
        try:
            is_leaked = is_open(self)
        except AttributeError:  # __init__ has failed
            is_leaked = False
        if is_leaked:
            _leaked.append(f"{type(self).__name__} {origin}")
            close(self)
        else:
            collect(self)

    cls.__init__, cls.__del__ = init, delete


def _has_socket(transport: Any) -> bool:
    return transport._sock is not None


def _close(transport: Any) -> None:
    transport._sock.close()


def _origin() -> str:
    """Return the running test and the nearest lines of this repository."""
    frame, lines = sys._getframe(2), list[str]()
    while frame is not None and len(lines) < _FRAMES:
        file = frame.f_code.co_filename
        if file.startswith(_ROOT) and not file.startswith(_LEFT_OUT):
            lines.append(f"{file.removeprefix(_ROOT)}:{frame.f_lineno} in {frame.f_code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]
    test = os.environ.get("PYTEST_CURRENT_TEST", "no test")
    return f"opened during {test}, at {' <- '.join(lines) or 'no line of this repository'}"


__all__ = ["take_leaks", "watch"]
