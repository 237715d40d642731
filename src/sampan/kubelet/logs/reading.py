"""Reading a log file, from its end backwards to where to begin, and then on as it grows."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO

from sampan.kubelet.logs.shown import LogOptions, Shown
from sampan.kubelet.logs.watching import Watch, watch
from sampan.runtimes.safe_paths import UnsafePath, open_file

_BLOCK = 64 << 10
_CHECK_S = 1.0
"""How often it is asked whether the container still runs while nothing comes."""


async def read(path: Path, options: LogOptions, *, is_running: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log in pieces; followed until the container no longer runs and all was read. FileNotFoundError if there is
    no file."""
    shown = Shown(options)
    if options.limit_bytes is not None and options.limit_bytes <= 0:
        return
    source = _Source(path)
    watching = watch(path) if options.is_following else None
    try:
        source.begin(options.tail_lines)
        async for piece in _pieces(source, shown, watching, is_running):
            yield piece
    finally:
        source.close()
        if watching is not None:
            watching.close()


async def _pieces(
    source: _Source, shown: Shown, watching: Watch | None, is_running: Callable[[], bool]
) -> AsyncIterator[bytes]:
    while True:
        runs = watching is not None and is_running()  # asked first: what it says last is read after it has ended
        while lines := source.lines():
            if out := shown.feed(lines):
                yield out
            if shown.is_full:
                return
            await asyncio.sleep(0)
        if source.was_replaced():
            continue
        if watching is None or not runs:
            if (out := shown.feed(source.rest())) and not shown.is_full:
                yield out
            return
        await watching.wait(_CHECK_S)


def _opened(path: Path) -> BinaryIO:
    """A link or a pipe that somebody has put in the place of a log is no log."""
    try:
        return open_file(path)
    except UnsafePath as error:
        raise FileNotFoundError(errno.ENOENT, str(error), str(path)) from None


class _Source:
    """The file that is read, and after a rotation the next of its name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _opened(path)
        self._rest = b""

    def begin(self, tail_lines: int | None) -> None:
        if tail_lines is not None:
            self._file.seek(tail_start(self._file, tail_lines))

    def lines(self) -> list[bytes]:
        """Whole lines that have come; none when there are no more for now."""
        while True:
            data = self._file.read(_BLOCK)
            if not data:
                return []
            data = self._rest + data
            end = data.rfind(b"\n") + 1
            self._rest = data[end:]
            if end:
                return _split(data[:end])

    def rest(self) -> list[bytes]:
        """A last line without its end."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []

    def was_replaced(self) -> bool:
        """Go on in a new file, if there is one and the old one is read to its end."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return False
        mine = os.fstat(self._file.fileno())
        if (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino):
            if found.st_size < self._file.tell():  # it was emptied
                self._file.seek(0)
                self._rest = b""
                return True
            return False
        if mine.st_size > self._file.tell():
            return True
        self._file.close()
        self._file = _opened(self._path)
        self._rest = b""
        return True

    def close(self) -> None:
        self._file.close()


def _split(data: bytes) -> list[bytes]:
    """At newlines alone: a carriage return is part of a line."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def tail_start(file: BinaryIO, lines: int) -> int:
    """Where the last so many lines begin."""
    size = file.seek(0, os.SEEK_END)
    if lines <= 0:
        return size
    left, at = lines + 1, size
    """The newline before the first of them is looked for."""
    if size:
        file.seek(size - 1)
        left -= file.read(1) != b"\n"
    while at > 0:
        start = max(at - _BLOCK, 0)
        file.seek(start)
        block = file.read(at - start)
        found = block.count(b"\n")
        if found < left:
            left -= found
            at = start
            continue
        end = len(block)
        for _ in range(left):
            end = block.rindex(b"\n", 0, end)
        return start + end + 1
    return 0


__all__ = ["read", "tail_start"]
