"""Logs of Docker containers in the CRI format."""

import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.runtimes.contract import STDERR, STDOUT
from sampan.runtimes.docker.logs import LogEntry, LogEntryParser, LogFile, format_line

TIMES = [f"2026-01-02T03:04:05.{number:09d}Z" for number in range(10)]
LARGEST = 16 << 10


def _piece(channel: int, text: str) -> bytes:
    data = text.encode()
    return struct.pack(">BxxxI", channel, len(data)) + data


@given(st.lists(st.integers(1, 40), max_size=8))
def test_entries_are_parsed_from_arbitrary_chunks(cuts: list[int]) -> None:
    data = (
        _piece(STDOUT, f"{TIMES[0]} one\n") + _piece(STDERR, f"{TIMES[1]} part") + _piece(STDERR, f"{TIMES[1]} end\n")
    )
    entries, texts = LogEntryParser(has_tty=False), []
    for size in (*cuts, len(data)):
        texts += entries.feed(data[:size])
        data = data[size:]
    assert texts == [
        LogEntry(TIMES[0], STDOUT, b"one", True),
        LogEntry(TIMES[1], STDERR, b"part", False),
        LogEntry(TIMES[1], STDERR, b"end", True),
    ]
    assert format_line(texts[1]) == f"{TIMES[1]} stderr P part\n".encode()


@pytest.mark.parametrize("step", [1_000, 16_415, 100_000])
def test_entries_of_a_terminal_are_parsed(step: int) -> None:
    long = "x" * LARGEST
    data = f"{TIMES[0]} a\r\n{TIMES[1]} {long}{TIMES[1]} y\n{TIMES[2]} \n".encode()
    entries = LogEntryParser(has_tty=True)
    parsed = [entry for at in range(0, len(data), step) for entry in entries.feed(data[at : at + step])]
    assert [(entry.text, entry.is_whole) for entry in parsed] == [
        (b"a\r", True),
        (long.encode(), False),
        (b"y", True),
        (b"", True),
    ]


def _entry(time: str, text: str) -> LogEntry:
    return LogEntry(time, STDOUT, text.encode(), True)


def test_log_continues_without_duplicates_after_a_restart(tmp_path: Path) -> None:
    """Docker repeats the entries of the last written timestamp; they are not written again."""
    path = tmp_path / "0.log"
    entries = [_entry(TIMES[0], "a"), _entry(TIMES[1], "b"), _entry(TIMES[1], "c"), _entry(TIMES[2], "d")]
    first = LogFile(path)
    first.write(entries[:2])
    first.close()
    with path.open("ab") as file:
        file.write(b"half a li")
    second = LogFile(path)
    assert second.resume_time < TIMES[1]
    second.write(entries[1:])
    second.prepare_resume()
    second.write([*entries[3:], _entry(TIMES[3], "e")])
    second.close()
    assert [row.split()[-1] for row in path.read_text().splitlines()] == ["a", "b", "c", "d", "e"]


def test_log_continues_without_duplicates_after_rotation(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    file = LogFile(path)
    file.write([_entry(TIMES[0], "a")])
    path.rename(tmp_path / "0.log.20260102-030405")
    file.reopen()
    file.close()
    again = LogFile(path)
    again.write([_entry(TIMES[0], "a"), _entry(TIMES[1], "b")])
    again.close()
    assert path.read_text() == f"{TIMES[1]} stdout F b\n"


def _write_twice(path: Path, first: list[LogEntry], second: list[LogEntry]) -> list[bytes]:
    """Write a stream, and then one of a restarted kubelet; return the lines of the file."""
    for entries in (first, second):
        file = LogFile(path)
        file.prepare_resume()
        file.write(entries)
        file.close()
    return path.read_bytes().splitlines()


def test_entries_of_both_channels_may_be_out_of_order(tmp_path: Path) -> None:
    """The engine stamps an entry of one channel before, and stores it after, an entry of the other one."""
    entries = [
        LogEntry(TIMES[0], STDOUT, b"a", True),
        LogEntry(TIMES[3], STDERR, b"b", True),
        LogEntry(TIMES[2], STDOUT, b"c", True),
        LogEntry(TIMES[1], STDERR, b"clock set back", True),
        LogEntry(TIMES[1], STDERR, b"again", True),
    ]
    file = LogFile(tmp_path / "0.log")
    file.write(entries)
    file.close()
    assert (tmp_path / "0.log").read_bytes() == b"".join(map(format_line, entries))


@given(st.integers(0, 6))
def test_continued_log_has_each_entry_once(written: int) -> None:
    """The engine repeats all entries since the time from which the log is read again."""
    entries = [
        LogEntry(TIMES[0], STDOUT, b"a", True),
        LogEntry(TIMES[2], STDERR, b"b", True),
        LogEntry(TIMES[1], STDOUT, b"c", True),
        LogEntry(TIMES[2], STDOUT, b"d", True),
        LogEntry(TIMES[2], STDERR, b"e", True),
        LogEntry(TIMES[3], STDOUT, b"f", True),
    ]
    with TemporaryDirectory() as directory:
        lines = _write_twice(Path(directory) / "0.log", entries[:written], entries)
    assert lines == [format_line(entry).rstrip(b"\n") for entry in entries]
