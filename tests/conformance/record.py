"""The record of runs in this repository.

A report adds the runs of an output directory to it, so that runs of the suite or of parts of it, with several runtimes,
stores and machines, stand side by side on the page of results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tests.conformance.results import Configuration, Result, Run

FILE = Path(__file__).with_name("record.json")
_RUN_DIRECTORY = re.compile(r"/\S*/\d{8}T\d{6}/")
"""The directory of a run in the text of a failure, which says nothing elsewhere."""


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    started: str
    configuration: Configuration
    commit: str
    date: str
    minutes: float
    passed: Sequence[int]
    """The positions of the tests in the list of all tests of the version."""
    failed: dict[int, str]
    """The reasons by position."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    tests: dict[str, Sequence[str]]
    """The names of all tests, sorted, by version of Kubernetes."""
    runs: Sequence[RecordedRun]


def read_record(file: Path = FILE) -> list[Run]:
    """Returns the recorded runs, the oldest first."""
    if not file.exists():
        return []
    record = msgspec.json.decode(file.read_bytes(), type=Record)
    return [_run(run, record.tests[run.configuration.kubernetes]) for run in record.runs]


def write_record(runs: Iterable[Run], file: Path = FILE) -> None:
    """Writes one line for each test and each run."""
    names_by_version: dict[str, set[str]] = {}
    runs = list(runs)
    for run in runs:
        names = names_by_version.setdefault(run.configuration.kubernetes, set())
        names.update(run.left_out, (result.name for result in run.results))
    tests = {version: sorted(names) for version, names in sorted(names_by_version.items())}
    lists = ",\n".join(f'"{version}": [\n{_lines(names)}\n]' for version, names in tests.items())
    recorded = _lines([_convert_run(run, tests[run.configuration.kubernetes]) for run in runs])
    file.write_text(f'{{"tests": {{\n{lists}\n}}, "runs": [\n{recorded}\n]}}\n')


def merge_runs(recorded: Iterable[Run], new: Iterable[Run]) -> list[Run]:
    """Returns all runs, the oldest first; a run that both have counts once."""
    by_start = {run.started: run for run in (*recorded, *new)}
    return [by_start[started] for started in sorted(by_start)]


def _lines(values: Iterable[object]) -> str:
    return ",\n".join(msgspec.json.encode(value).decode() for value in values)


def _convert_run(run: Run, tests: Sequence[str]) -> RecordedRun:
    positions = {name: position for position, name in enumerate(tests)}
    return RecordedRun(
        started=run.started,
        configuration=run.configuration,
        commit=run.commit,
        date=run.date,
        minutes=round(run.minutes, 1),
        passed=[positions[result.name] for result in run.results if not result.failure],
        failed={
            positions[result.name]: _RUN_DIRECTORY.sub("", result.failure) for result in run.results if result.failure
        },
    )


def _run(recorded: RecordedRun, tests: Sequence[str]) -> Run:
    results = [Result(name=tests[position]) for position in recorded.passed]
    results += [Result(name=tests[position], failure=failure) for position, failure in recorded.failed.items()]
    return Run(
        started=recorded.started,
        configuration=recorded.configuration,
        commit=recorded.commit,
        date=recorded.date,
        minutes=recorded.minutes,
        results=sorted(results, key=lambda result: result.name),
        left_out=sorted(set(tests) - {result.name for result in results}),
    )
