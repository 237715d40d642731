"""The printed steps of a start, on a terminal and in a file."""

import sys

import pytest

from sampan.cli.local_cluster.start_progress import PrintedProgress, is_step_line, step_line


@pytest.mark.parametrize("is_terminal", [True, False])
def test_each_step_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    progress = PrintedProgress()
    for step in ("store", "API server"):
        progress.begin(step)
    progress.end()
    progress.end()
    out = capsys.readouterr().err
    lines = [line.rpartition("\r\033[K")[2] for line in out.split("\n")[:-1]]
    assert [line.split("  ")[1] for line in lines] == ["store", "API server"]
    assert all(is_step_line(line) for line in lines)
    assert ("…" in out) is is_terminal


def test_log_lines_are_not_step_lines() -> None:
    assert is_step_line(step_line("nodes", 123.4))
    assert not is_step_line("2026-01-01 00:00:00 WARNING sampan: took 1.00 s")
    assert not is_step_line("  listen 127.0.0.1:6443")
