"""The output of containers is logged in the CRI log format."""

from __future__ import annotations

import re

from sampan.testing.runtime_conformance.bench import open_bench, wait_until
from sampan.testing.runtime_conformance.subject import Checks, Feature, Subject

CHECKS = Checks()
_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(Z|[+-]\d\d:\d\d) (stdout|stderr) ([PF]) (.*)", re.DOTALL)
_PAIRS = 1_000
_LONG_LINE_LENGTH = 40_000


@CHECKS.add(Feature.PROGRAMS)
async def stdout_and_stderr_are_logged_line_by_line(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        await bench.run(pod, "echo one; sleep 0.1; echo two >&2; sleep 0.1; echo; printf '%s' unfinished")
        path = bench.runtime.log_file(pod, "c")
        assert path is not None
        matches = [_LINE.fullmatch(line) for line in path.read_text().splitlines()]
        assert all(matches), path.read_text()
        entries = [(match[2], match[4]) for match in matches if match]
        assert entries == [("stdout", "one"), ("stderr", "two"), ("stdout", ""), ("stdout", "unfinished")]


@CHECKS.add(Feature.PROGRAMS)
async def long_log_lines_are_split_into_partial_entries(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        await bench.run(pod, f"head -c {_LONG_LINE_LENGTH} /dev/zero | tr '\\0' x; echo end; echo next")
        path = bench.runtime.log_file(pod, "c")
        assert path is not None
        rows = [match for match in map(_LINE.fullmatch, path.read_text().splitlines()) if match]
        marks = "".join(match[3] for match in rows)
        assert re.fullmatch("P+FF", marks), marks
        assert "".join(match[4] for match in rows[:-1]) == "x" * _LONG_LINE_LENGTH + "end"
        assert rows[-1][4] == "next"


@CHECKS.add(Feature.PROGRAMS)
async def lines_of_both_channels_are_complete(subject: Subject) -> None:
    """Runtimes read the channels independently, so that lines of one may be stored after later lines of the other."""
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        script = f'i=0; while test $i -lt {_PAIRS}; do echo "out $i"; echo "err $i" >&2; i=$((i+1)); done'
        lines = await bench.run(pod, script)
        expected = {f"{name} {number}" for name in ("out", "err") for number in range(_PAIRS)}
        assert expected - set(lines) == set()
        assert len(lines) == len(expected)


@CHECKS.add(Feature.PROGRAMS)
async def log_is_reopened_after_rotation(subject: Subject) -> None:
    """After rotation the log continues in a new file, and nothing is lost."""
    async with open_bench(subject) as bench:
        pod = await bench.sandbox()
        await bench.start(pod, "i=0; while :; do echo $i; i=$((i+1)); sleep 0.05; done")
        await wait_until(lambda: len(bench.log(pod)) > 2, "the container writes no output")
        path = bench.runtime.log_file(pod, "c")
        assert path is not None
        moved = path.with_name("moved.log")
        path.rename(moved)
        await bench.runtime.reopen_log(pod, "c")
        await wait_until(lambda: len(bench.log(pod)) > 2, "the log gets no new lines")
        lines = [*moved.read_text().splitlines(), *path.read_text().splitlines()]
        numbers = [int(line.split(" ", 3)[3]) for line in lines]
        assert numbers == list(range(len(numbers)))
        moved.unlink()


@CHECKS.add(Feature.PROGRAMS)
async def terminal_output_is_logged(subject: Subject) -> None:
    async with open_bench(subject) as bench:
        pod = bench.pod(tty=True)
        await bench.runtime.run_sandbox(pod, bench.sandbox_config(pod))
        lines = await bench.run(pod, "test -t 1 && echo terminal; echo error >&2", has_tty=True)
        assert [line.rstrip("\r") for line in lines] == ["terminal", "error"]
