"""Lines of log files in the CRI and the Docker format, and invalid lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.kubelet.logs.lines import BadLine, LogLine, nanoseconds, parse

_T = "2016-10-06T00:17:09.669794202Z"


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (f"{_T} stdout F hello you\n".encode(), LogLine(_T, "stdout", False, b"hello you\n")),
        (f"{_T} stderr P hello \n".encode(), LogLine(_T, "stderr", True, b"hello ")),
        (f"{_T} stdout F:more \n".encode(), LogLine(_T, "stdout", False, b"\n")),
        (f"{_T} stdout F\n".encode(), LogLine(_T, "stdout", False, b"\n")),
        (
            b'{"log":"a\\n","stream":"stderr","time":"2016-10-06T00:17:09.5Z"}\n',
            LogLine("2016-10-06T00:17:09.500000000Z", "stderr", False, b"a\n"),
        ),
        (
            b'{"log":"a","stream":"stdout","time":"2016-10-06T02:17:09+02:00"}\n',
            LogLine("2016-10-06T02:17:09.000000000+02:00", "stdout", True, b"a"),
        ),
    ],
)
def test_cri_and_docker_lines_are_parsed(raw: bytes, line: LogLine) -> None:
    assert parse(raw) == line


@pytest.mark.parametrize("raw", [b"", b"\n", b"now stdout F x\n", _T.encode(), f"{_T} out F x\n".encode(), b"{}", b"{"])
def test_invalid_lines_are_rejected(raw: bytes) -> None:
    with pytest.raises(BadLine):
        parse(raw)


def test_nanoseconds_of_timestamps() -> None:
    assert nanoseconds("1970-01-01T00:00:01.5Z") == 1_500_000_000
    assert nanoseconds("1970-01-01T02:00:00+02:00") == 0
    assert nanoseconds("1969-12-31T23:00:00-01:00") == 0


@given(st.binary(max_size=100))
def test_parse_of_any_bytes_returns_or_raises_bad_line(raw: bytes) -> None:
    for prefix in (b"", f"{_T} stdout ".encode(), b'{"log":'):
        try:
            parse(prefix + raw)
        except BadLine:
            continue
