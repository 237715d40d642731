"""Convert the output of a container from the format of the Docker Engine to the CRI log format.

Entries have timestamps. A restarted kubelet continues after the timestamps of the last lines in the file.
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
from sampan.host.background_tasks import DetachedTasks
from sampan.runtimes import contract
from sampan.runtimes.contract import STDERR, STDOUT
from sampan.runtimes.docker.client import DockerClient, DockerError, Query
from sampan.runtimes.docker.streaming import FrameSplitter
from sampan.runtimes.pod_table import ObservedContainer

_MAX_ENTRY_BYTES = 16 << 10
"""The maximum length of the text of an entry; the engine splits longer lines."""
_TIME = 30
"""The length of a timestamp with all nanosecond digits."""
_TAIL = 64 << 10
_OVERLAP_S = 2
"""How much of a log is read again when it is continued."""


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


class ChannelPosition:
    """How far one channel of a log has been written: the timestamp of its last entry, and the number of entries with
    that timestamp.

    The engine reads the two channels of a container independently, stamps each entry when it reads it, and then stores
    it. So the entries of one channel are in the order of their timestamps, but those of a log are not: with one
    position for both, entries would be taken for old ones and lost.
    """

    def __init__(self, time: str = "", count: int = 0) -> None:
        self.time, self._count = time, count
        self._is_resuming, self._known = True, count

    def prepare_resume(self) -> None:
        """Expect a new stream, which may repeat entries."""
        self._is_resuming, self._known = True, self._count

    def accept(self, time: str) -> bool:
        """Return whether an entry with this timestamp is new, and advance the position if so. After the first new entry
        all entries of a stream are new, even if the clock of the machine was set back."""
        if self._is_resuming and time < self.time:
            return False
        if self._is_resuming and time == self.time and self._known:
            self._known -= 1
            return False
        self._is_resuming = False
        self._count = self._count + 1 if time == self.time else 1
        self.time = time
        return True


class LogFile:
    """The log file of one container."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        _truncate_incomplete_line(path)
        self._positions = _read_positions(path)
        self._file = self._open()

    @property
    def resume_time(self) -> str:
        """The timestamp from which to read the log again: somewhat earlier than that of the last entry written, as
        entries of the other channel that are older may not be stored yet. It is empty for an empty log."""
        latest = max(position.time for position in self._positions.values())
        oldest = min(position.time for position in self._positions.values())
        return max(oldest, _subtract(latest, _OVERLAP_S)) if latest else ""

    def _open(self) -> io.FileIO:
        return open(self._path, "ab", buffering=0)

    def write(self, entries: list[LogEntry]) -> None:
        new = [format_line(entry) for entry in entries if self._positions[entry.channel].accept(entry.time)]
        if new:
            self._file.write(b"".join(new))

    def prepare_resume(self) -> None:
        """Prepare for a new stream that starts at `resume_time`."""
        for position in self._positions.values():
            position.prepare_resume()

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


def _read_positions(path: Path) -> dict[int, ChannelPosition]:
    """Return the position of each channel. A channel without an entry in the last part of the file cannot have new
    entries that are older than this part."""
    for file in (path, *_list_rotated_files(path)):
        rows = [row.split(b" ", 2) for row in _read_tail(file)]
        times = [row[0].decode("ascii", "replace") for row in rows]
        if not times:
            continue
        positions = {}
        for channel, name in ((STDOUT, b"stdout"), (STDERR, b"stderr")):
            own = [time for time, row in zip(times, rows, strict=True) if row[1:2] == [name]]
            last = own[-1] if own else ""
            positions[channel] = ChannelPosition(last, own.count(last)) if own else ChannelPosition(times[0])
        return positions
    return {STDOUT: ChannelPosition(), STDERR: ChannelPosition()}


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
    def __init__(self, *, client: DockerClient, background: DetachedTasks) -> None:
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
        """Copy the log of a container. It is followed first, and then its end is read again, as the engine may end a
        followed log before its last entries."""
        file = self._files[container.id] = LogFile(Path(container.log_path))
        try:
            for follows in (1, 0):
                query: Query = {"follow": follows, "stdout": 1, "stderr": 1, "timestamps": 1}
                if since := file.resume_time:
                    query = {**query, "since": _seconds(since)}
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


def _subtract(time: str, seconds: int) -> str:
    whole, _, remainder = time.removesuffix("Z").partition(".")
    earlier = times.format_time(times.parse_time(f"{whole}Z") - seconds)
    return f"{earlier.removesuffix('Z')}.{remainder or '0'}Z"


def _seconds(time: str) -> str:
    """Convert a timestamp to the format of the Docker API: seconds since the epoch with a fraction."""
    whole, _, remainder = time.removesuffix("Z").partition(".")
    return f"{int(times.parse_time(f'{whole}Z'))}.{remainder or '0'}"
