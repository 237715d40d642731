"""Convert the output of a container from the format of the Docker Engine to the CRI log format.

Entries have timestamps. A restarted kubelet continues after the timestamp of the last line in the file.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

from sampan.api.values import times
from sampan.runtimes import contract
from sampan.runtimes.background import BackgroundWork
from sampan.runtimes.contract import STDERR, STDOUT
from sampan.runtimes.docker.client import DockerClient, DockerError, Query
from sampan.runtimes.docker.streaming import FrameSplitter
from sampan.runtimes.pod_table import ObservedContainer

_MAX_ENTRY_BYTES = 16 << 10
"""The maximum length of the text of an entry; the engine splits longer lines."""
_TIME = 30
"""The length of a timestamp with all nanosecond digits."""
_TAIL = 64 << 10


class LogEntry(NamedTuple):
    time: str
    channel: int
    text: bytes
    is_whole: bool
    """Whether this entry ends the line."""


class LogEntryParser:
    """Splits a log stream of the engine into entries."""

    def __init__(self, *, has_tty: bool) -> None:
        self._has_tty = has_tty
        self._pieces, self._data = FrameSplitter(), b""

    def feed(self, data: bytes) -> list[LogEntry]:
        if self._has_tty:
            self._data += data
            return list(self._parse_plain())
        return [_entry(channel, piece) for channel, piece in self._pieces.feed(data)]

    def _parse_plain(self) -> Iterator[LogEntry]:
        """Yield the entries of a container with a terminal. Such a stream has no framing: an entry ends at a newline or
        at the maximum length."""
        while len(self._data) > _TIME:
            end = self._data.find(b"\n", _TIME + 1, _TIME + 1 + _MAX_ENTRY_BYTES)
            size = end + 1 if end >= 0 else _TIME + 1 + _MAX_ENTRY_BYTES
            if len(self._data) < size:
                return
            yield _entry(STDOUT, self._data[:size])
            self._data = self._data[size:]


def _entry(channel: int, piece: bytes) -> LogEntry:
    time, _, text = piece.partition(b" ")
    is_whole = text.endswith(b"\n")
    return LogEntry(time.decode("ascii", "replace"), channel, text[:-1] if is_whole else text, is_whole)


def format_line(entry: LogEntry) -> bytes:
    name, mark = "stderr" if entry.channel == STDERR else "stdout", "F" if entry.is_whole else "P"
    return f"{entry.time} {name} {mark} ".encode() + entry.text + b"\n"


class LogFile:
    """The log file of one container."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        _truncate_incomplete_line(path)
        self.since, self._count = _read_last_timestamp(path)
        """The timestamp of the last entry written, and the number of entries with that timestamp."""
        self._known = self._count
        """The number of entries with that timestamp that are still to be skipped, as the engine sends them again."""
        self._file = self._open()

    def _open(self) -> io.FileIO:
        return open(self._path, "ab", buffering=0)

    def write(self, entries: list[LogEntry]) -> None:
        new = [format_line(entry) for entry in entries if self._accept_entry(entry)]
        if new:
            self._file.write(b"".join(new))

    def _accept_entry(self, entry: LogEntry) -> bool:
        """Return whether the entry is new, and advance the position in the log if so."""
        if entry.time < self.since or (entry.time == self.since and self._known):
            self._known -= entry.time == self.since
            return False
        self._count = self._count + 1 if entry.time == self.since else 1
        self.since, self._known = entry.time, 0
        return True

    def prepare_resume(self) -> None:
        """Prepare for a new stream that starts with the entries of the last timestamp."""
        self._known = self._count

    def reopen(self) -> None:
        self._file.close()
        self._file = self._open()

    def close(self) -> None:
        self._file.close()


async def follow(pieces: AsyncIterator[bytes], file: LogFile, *, has_tty: bool) -> None:
    """Copy a log stream of the engine to the file until the stream ends."""
    entries = LogEntryParser(has_tty=has_tty)
    async for data in pieces:
        file.write(entries.feed(data))


def _read_last_timestamp(path: Path) -> tuple[str, int]:
    for file in (path, *_list_rotated_files(path)):
        times = [row.split(b" ", 1)[0].decode("ascii", "replace") for row in _read_tail(file)]
        if times:
            return times[-1], times.count(times[-1])
    return "", 0


def _list_rotated_files(path: Path) -> list[Path]:
    """Return the rotated files of the log that are not compressed, the latest first."""
    try:
        names = [name for name in os.listdir(path.parent) if name.startswith(f"{path.name}.")]
    except OSError:
        return []
    return [path.parent / name for name in sorted(names, reverse=True) if not name.endswith(".gz")]


def _read_tail(path: Path) -> list[bytes]:
    """Return the last complete lines of a file."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _TAIL, 0))
            rows = file.read().split(b"\n")
    except OSError:
        return []
    return rows[1 if size > _TAIL else 0 : -1]


def _truncate_incomplete_line(path: Path) -> None:
    """Cut off an incomplete last line; the engine sends that entry again."""
    try:
        with open(path, "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            start = file.seek(max(size - _TAIL, 0))
            file.truncate(start + file.read().rfind(b"\n") + 1)
    except OSError:
        return


log = logging.getLogger(__name__)

_LAST_WORDS_S = 2.0
"""The maximum time by which the report of a container's exit is delayed for its log to become complete."""


class LogCopies:
    def __init__(self, *, client: DockerClient, background: BackgroundWork) -> None:
        self._client, self._background = client, background
        self._files: dict[str, LogFile] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """Copy tasks by container id. A finished task is kept until the container is removed."""

    async def ensure_copy(self, container: ObservedContainer, *, has_tty: bool) -> None:
        """Ensure that the log of a container is being copied. If the container has exited, wait for the end of the log,
        up to a limit."""
        task = self._tasks.get(container.id)
        if task is None and container.log_path and container.state != contract.CREATED:
            task = self._background.start(self._copy(container, has_tty=has_tty))
            self._tasks[container.id] = task
        if task is not None and container.is_over:
            await asyncio.wait((task,), timeout=_LAST_WORDS_S)

    async def _copy(self, container: ObservedContainer, *, has_tty: bool) -> None:
        """Copy the log of a container. It is followed first, and then read again from the last entry, as the engine may
        end a followed log before its last entries."""
        file = self._files[container.id] = LogFile(Path(container.log_path))
        try:
            for follows in (1, 0):
                query: Query = {"follow": follows, "stdout": 1, "stderr": 1, "timestamps": 1}
                if file.since:
                    query = {**query, "since": _seconds(file.since)}
                    file.prepare_resume()
                pieces = self._client.pieces("GET", f"/containers/{container.id}/logs", query)
                await follow(pieces, file, has_tty=has_tty)
        except DockerError as error:
            if not error.is_missing:
                log.warning("the log of container %s is incomplete: %s", container.id, error)
        finally:
            file.close()
            self._files.pop(container.id, None)

    def reopen(self, id: str) -> None:
        if (file := self._files.get(id)) is not None:
            file.reopen()

    async def forget(self, id: str) -> None:
        """Stop copying the log of a container."""
        if (task := self._tasks.pop(id, None)) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _seconds(time: str) -> str:
    """Convert a timestamp to the format of the Docker API: seconds since the epoch with a fraction."""
    whole, _, rest = time.removesuffix("Z").partition(".")
    return f"{int(times.parse_time(f'{whole}Z'))}.{rest or '0'}"
