"""Reads a log file from a number of lines before its end, and follows it as it grows."""

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
"""Interval at which the state of the container is checked while nothing is written."""


async def read(path: Path, options: LogOptions, *, is_running: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield the log in pieces. If it is followed, stop once the container no longer runs and everything has been read.
    Raise FileNotFoundError if there is no file.
    """
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
        # Asked before reading, so that the last output of a container that has exited is not missed.
        runs = watching is not None and is_running()
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
    """Open the file. A link or a pipe in its place counts as a missing log."""
    try:
        return open_file(path)
    except UnsafePath as error:
        raise FileNotFoundError(errno.ENOENT, str(error), str(path)) from None


class _Source:
    """The file that is read, and after a rotation its successor of the same name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _opened(path)
        self._rest = b""

    def begin(self, tail_lines: int | None) -> None:
        if tail_lines is not None:
            self._file.seek(tail_start(self._file, tail_lines))

    def lines(self) -> list[bytes]:
        """Return complete lines, or none if there are no more for now."""
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
        """Return a last line without newline."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []

    def was_replaced(self) -> bool:
        """Switch to the new file if there is one and the old one has been read to its end. Return whether to continue
        reading.
        """
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return False
        mine = os.fstat(self._file.fileno())
        if (status.st_dev, status.st_ino) == (mine.st_dev, mine.st_ino):
            if status.st_size < self._file.tell():  # The file was truncated.
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
    """Split at newlines only, because a carriage return is part of a line."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def tail_start(file: BinaryIO, lines: int) -> int:
    """Return the offset of the last `lines` lines."""
    size = file.seek(0, os.SEEK_END)
    if lines <= 0:
        return size
    remaining, at = lines + 1, size
    """Number of newlines to find, including the one before the first of these lines."""
    if size:
        file.seek(size - 1)
        remaining -= file.read(1) != b"\n"
    while at > 0:
        start = max(at - _BLOCK, 0)
        file.seek(start)
        block = file.read(at - start)
        newlines = block.count(b"\n")
        if newlines < remaining:
            remaining -= newlines
            at = start
            continue
        end = len(block)
        for _ in range(remaining):
            end = block.rindex(b"\n", 0, end)
        return start + end + 1
    return 0
