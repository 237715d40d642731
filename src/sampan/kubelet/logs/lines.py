"""Lines of log files: parses the CRI format `TIME stdout|stderr F|P TEXT` or Docker's JSON, and filters lines by the
options of the request. Pure.
"""

from __future__ import annotations

import calendar
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

STDOUT, STDERR = "stdout", "stderr"
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


class BadLine(ValueError):
    """The line is in neither format."""


@dataclass(frozen=True, slots=True)
class LogLine:
    time: str
    """Timestamp with nine digits after the decimal point."""
    stream: str
    is_partial: bool
    """Whether the next line of the stream continues this one."""
    text: bytes
    """Text with its newline, unless the line is partial."""

    def nanoseconds(self) -> int:
        return nanoseconds(self.time)


def parse(raw: bytes) -> LogLine:
    """Parse a line of the file, with its newline if it has one. Raise BadLine if the format is unknown."""
    return _docker(raw) if raw.startswith(b"{") else _cri(raw)


def _cri(raw: bytes) -> LogLine:
    time, _, remainder = raw.partition(b" ")
    stream, _, remainder = remainder.partition(b" ")
    tags, space, text = remainder.partition(b" ")
    if not space and tags.endswith(b"\n"):  # An empty line may lack the last space.
        tags, text = tags[:-1], b"\n"
    if stream not in (b"stdout", b"stderr") or not tags:
        raise BadLine(f"unexpected stream type {stream[:20]!r}")
    is_partial = tags.split(b":", 1)[0] == b"P"
    if is_partial:
        text = text.removesuffix(b"\n")
    return LogLine(_normalize_time(time.decode("ascii", "replace")), stream.decode(), is_partial, text)


def _docker(raw: bytes) -> LogLine:
    try:
        value = json.loads(raw)
        stream, text, time = value["stream"], value["log"], value["time"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadLine("the line is not valid JSON") from None
    if stream not in (STDOUT, STDERR) or not isinstance(text, str) or not isinstance(time, str):
        raise BadLine("the line has no stream, log or time field")
    is_partial = not text.endswith("\n")
    return LogLine(_normalize_time(time), stream, is_partial, text.encode("utf-8", "surrogatepass"))


def _normalize_time(time: str) -> str:
    if len(time) == 30 and time[19] == "." and time[-1] == "Z":
        return time
    match = _TIME.fullmatch(time)
    if match is None:
        raise BadLine(f"unexpected timestamp {time[:40]!r}")
    return f"{time[:19]}.{(match[7] or '').ljust(9, '0')}{match[8]}"


def nanoseconds(time: str) -> int:
    """Return the nanoseconds since the epoch."""
    match = _TIME.fullmatch(time)
    if match is None:
        raise BadLine(f"unexpected timestamp {time[:40]!r}")
    parts = tuple(int(match[group]) for group in range(1, 7))
    try:
        seconds = calendar.timegm((*parts, 0, 0, 0))
    except ValueError:
        raise BadLine(f"unexpected timestamp {time[:40]!r}") from None
    zone = match[8]
    if zone != "Z":
        ahead = (int(zone[1:3]) * 60 + int(zone[4:6])) * 60
        seconds -= ahead if zone[0] == "+" else -ahead
    return seconds * 1_000_000_000 + int((match[7] or "0").ljust(9, "0"))


ALL = "All"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    is_following: bool = False
    is_previous: bool = False
    tail_lines: int | None = None
    since_ns: int | None = None
    """Earliest time of the lines to show."""
    has_timestamps: bool = False
    limit_bytes: int | None = None
    stream: str = ALL
    """All, Stdout or Stderr."""


class LineFilter:
    """Selects the lines and bytes that the log options ask for. Lines must be passed in the order of the file."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._left = options.limit_bytes
        self._since = options.since_ns
        self._stream = "" if options.stream == ALL else options.stream.lower()
        self._is_new: dict[str, bool] = {}

    @property
    def is_full(self) -> bool:
        """Whether the byte limit has been reached."""
        return self._left is not None and self._left <= 0

    def feed(self, raw: Iterable[bytes]) -> bytes:
        out = b"".join(self._filter_line(line) for line in raw)
        if self._left is not None:
            out = out[: self._left]
            self._left -= len(out)
        return out

    def _filter_line(self, raw: bytes) -> bytes:
        try:
            line = parse(raw)
            if self._since is not None:
                if line.nanoseconds() < self._since:
                    return b""
                self._since = None  # All following lines have later timestamps.
        except BadLine:
            return b""
        if self._stream and line.stream != self._stream:
            return b""
        is_new, self._is_new[line.stream] = self._is_new.get(line.stream, True), not line.is_partial
        if self._options.has_timestamps and is_new:
            return line.time.encode() + b" " + line.text
        return line.text
