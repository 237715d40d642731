"""Log options, and following of real files that grow and are rotated."""

import asyncio
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.kubelet.logs.lines import LogOptions, nanoseconds
from sampan.kubelet.logs.reader import read, tail_start


def _line(second: int, text: str, stream: str = "stdout", tag: str = "F") -> str:
    return f"2026-01-01T00:00:{second:02}.000000000Z {stream} {tag} {text}\n"


LOG = (
    _line(1, "one")
    + _line(2, "two", "stderr")
    + _line(3, "thr", tag="P")
    + _line(4, "ee")
    + "nonsense\n"
    + _line(5, "")
)


def _return_false() -> bool:
    return False


def _read_log(path: Path, options: LogOptions, is_running: Callable[[], bool] = _return_false) -> str:
    async def main() -> bytes:
        return b"".join([piece async for piece in read(path, options, is_running=is_running)])

    return asyncio.run(main()).decode()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (LogOptions(), "one\ntwo\nthree\n\n"),
        (LogOptions(tail_lines=0), ""),
        (LogOptions(tail_lines=3), "ee\n\n"),
        (LogOptions(tail_lines=100), "one\ntwo\nthree\n\n"),
        (LogOptions(since_ns=nanoseconds("2026-01-01T00:00:02Z")), "two\nthree\n\n"),
        (LogOptions(since_ns=nanoseconds("2027-01-01T00:00:02Z")), ""),
        (LogOptions(limit_bytes=6), "one\ntw"),
        (LogOptions(limit_bytes=4), "one\n"),
        (LogOptions(stream="Stderr"), "two\n"),
        (
            LogOptions(has_timestamps=True, stream="Stdout"),
            "2026-01-01T00:00:01.000000000Z one\n2026-01-01T00:00:03.000000000Z three\n"
            "2026-01-01T00:00:05.000000000Z \n",
        ),
    ],
)
def test_log_options(tmp_path: Path, options: LogOptions, text: str) -> None:
    path = tmp_path / "0.log"
    path.write_text(LOG)
    assert _read_log(path, options) == text


def test_last_line_without_newline_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_text(LOG + _line(6, "six").removesuffix("\n"))
    assert _read_log(path, LogOptions(tail_lines=1)) == "six"


@given(st.binary(max_size=300).map(lambda data: data.replace(b"\x00", b"\n")), st.integers(0, 20))
def test_tail_start_of_any_content(data: bytes, count: int) -> None:
    lines = io.BytesIO(data).readlines()
    expected = len(b"".join(lines[: max(len(lines) - count, 0)]))
    assert tail_start(io.BytesIO(data), count) == expected


async def test_follow_continues_through_rotation_until_the_container_stops(tmp_path: Path) -> None:
    path, runs = tmp_path / "0.log", True
    path.write_text(_line(1, "one"))
    pieces = read(path, LogOptions(is_following=True), is_running=lambda: runs)
    async with asyncio.timeout(60):
        assert await anext(pieces) == b"one\n"
        with path.open("a") as file:
            file.write(_line(2, "two"))
        assert await anext(pieces) == b"two\n"
        with path.open("a") as file:
            file.write(_line(3, "three"))
        path.rename(tmp_path / "0.log.20260101-000003")
        path.write_text(_line(4, "four"))
        text = b""
        while b"four" not in text:
            text += await anext(pieces)
        assert text == b"three\nfour\n"
        with path.open("a") as file:
            file.write(_line(5, "five"))
        runs = False
        assert [piece async for piece in pieces] == [b"five\n"]


def test_missing_log_file_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        _read_log(tmp_path / "0.log", LogOptions())
