"""Reads a log file from a number of lines before its end, and follows it as it grows.

Changes of the file, and its replacement, are detected by inotify, or by polling where inotify is not available.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO, Protocol

from sampan.kubelet.logs.lines import LineFilter, LogOptions
from sampan.runtimes.safe_paths import UnsafePath, open_file

_BLOCK = 64 << 10
_CHECK_S = 1.0
"""Interval at which the state of the container is checked while nothing is written."""


async def read(path: Path, options: LogOptions, *, is_running: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield the log in pieces. If the log is followed, stop once the container no longer runs and everything has been
    read. Raise FileNotFoundError if there is no file.
    """
    line_filter = LineFilter(options)
    if options.limit_bytes is not None and options.limit_bytes <= 0:
        return
    source = _LogSource(path)
    file_watch = watch(path) if options.is_following else None
    try:
        source.start(options.tail_lines)
        async for piece in _pieces(source, line_filter, file_watch, is_running):
            yield piece
    finally:
        source.close()
        if file_watch is not None:
            file_watch.close()


async def _pieces(
    source: _LogSource, line_filter: LineFilter, file_watch: FileWatch | None, is_running: Callable[[], bool]
) -> AsyncIterator[bytes]:
    while True:
        # The state is read before the file, so that the last output of a container that has exited is not missed.
        runs = file_watch is not None and is_running()
        while lines := source.lines():
            if out := line_filter.feed(lines):
                yield out
            if line_filter.is_full:
                return
            await asyncio.sleep(0)
        if source.switch_to_new_file():
            continue
        if file_watch is None or not runs:
            if (out := line_filter.feed(source.rest())) and not line_filter.is_full:
                yield out
            return
        await file_watch.wait(_CHECK_S)


def _open_log(path: Path) -> BinaryIO:
    """Open the log file. Raise FileNotFoundError also for a link or a pipe in its place."""
    try:
        return open_file(path)
    except UnsafePath as error:
        raise FileNotFoundError(errno.ENOENT, str(error), str(path)) from None


class _LogSource:
    """The file that is read, and after a rotation its successor of the same name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _open_log(path)
        self._rest = b""

    def start(self, tail_lines: int | None) -> None:
        if tail_lines is not None:
            self._file.seek(tail_start(self._file, tail_lines))

    def lines(self) -> list[bytes]:
        """Return the next complete lines, or an empty list if there are none for now."""
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
        """Return the incomplete last line, if there is one."""
        remainder, self._rest = self._rest, b""
        return [remainder] if remainder else []

    def switch_to_new_file(self) -> bool:
        """Switch to the new file after a rotation, once the old file has been read to its end. Return whether to
        continue reading.
        """
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return False
        opened = os.fstat(self._file.fileno())
        if (status.st_dev, status.st_ino) == (opened.st_dev, opened.st_ino):
            if status.st_size < self._file.tell():  # The file was truncated.
                self._file.seek(0)
                self._rest = b""
                return True
            return False
        if opened.st_size > self._file.tell():
            return True
        self._file.close()
        self._file = _open_log(self._path)
        self._rest = b""
        return True

    def close(self) -> None:
        self._file.close()


def _split(data: bytes) -> list[bytes]:
    """Split at newlines only, because a carriage return is part of a line."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def tail_start(file: BinaryIO, lines: int) -> int:
    """Return the offset at which the last `lines` lines of the file start."""
    size = file.seek(0, os.SEEK_END)
    if lines <= 0:
        return size
    remaining, position = lines + 1, size
    """Number of newlines to find, including the one before the first line to show."""
    if size:
        file.seek(size - 1)
        remaining -= file.read(1) != b"\n"
    while position > 0:
        start = max(position - _BLOCK, 0)
        file.seek(start)
        block = file.read(position - start)
        newlines = block.count(b"\n")
        if newlines < remaining:
            remaining -= newlines
            position = start
            continue
        end = len(block)
        for _ in range(remaining):
            end = block.rindex(b"\n", 0, end)
        return start + end + 1
    return 0


_MODIFY, _CREATE, _MOVED_TO, _DELETE_SELF = 0x2, 0x100, 0x80, 0x400
_NONBLOCK = os.O_NONBLOCK | os.O_CLOEXEC
_POLL_S = 0.2


class FileWatch(Protocol):
    async def wait(self, timeout_s: float) -> None:
        """Wait until the file has changed since the last call, or until the timeout."""

    def close(self) -> None: ...


class InotifyWatch:
    """Watches the directory of a log file with inotify, because the file may be renamed and created again."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.inotify_init1(_NONBLOCK)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        mask = _MODIFY | _CREATE | _MOVED_TO | _DELETE_SELF
        directory = os.path.realpath(path.parent if not path.is_symlink() else os.path.realpath(path) + "/..")
        if libc.inotify_add_watch(self._file, os.fsencode(directory), mask) < 0:
            os.close(self._file)
            raise OSError(ctypes.get_errno(), "inotify_add_watch")
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._file, self._on_change)

    def _on_change(self) -> None:
        try:
            os.read(self._file, 1 << 16)
        except BlockingIOError:
            return
        self._changed.set()

    async def wait(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    def close(self) -> None:
        self._loop.remove_reader(self._file)
        os.close(self._file)


class PollingWatch:
    """Polls the log file on machines where inotify is not available."""

    async def wait(self, timeout_s: float) -> None:
        await asyncio.sleep(min(timeout_s, _POLL_S))

    def close(self) -> None:
        return


def watch(path: Path) -> FileWatch:
    if sys.platform == "linux":
        try:
            return InotifyWatch(path)
        except OSError:
            return PollingWatch()
    return PollingWatch()
