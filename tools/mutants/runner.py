"""Runs tests on the mutants of one module: `python -m tools.mutants.runner` reads a request in JSON and writes results.

The module is imported with all its mutants switched off, and the tests are collected once. A child process runs them
and records which mutants each test reaches; then a child process for each mutant runs the tests that reach it, the
fastest first, until one fails.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.mutants.mutations import SWITCH, mutate

KILLED, SURVIVED, TIMEOUT, NOT_REACHED = "killed", "survived", "timeout", "not reached"
_MIN_CPU_S, _CPU_FACTOR = 10, 6
"""A mutant may use the CPU time of its tests several times over, and some more."""
_MIN_WALL_S, _WALL_FACTOR = 60, 20
_BASELINE_TIMEOUT_S = 1800


@dataclass(slots=True)
class Reach:
    """What a test takes, and the mutants that it reaches."""

    seconds: float
    mutants: set[int]
    has_passed: bool


class _Recorder:
    """The value of the switch while reached mutants are recorded. It equals no number."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            self.numbers.add(other)
        return False

    __hash__ = None  # type: ignore[assignment]


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        tree, _ = mutate(Path(path).read_text(), path)
        return compile(tree, path, "exec", dont_inherit=True)


class MutatedModuleFinder(importlib.abc.MetaPathFinder):
    """Imports one module with its mutants."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self._path = name, path

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        if fullname != self.name:
            return None
        is_package = self._path.name == "__init__.py"
        locations = [str(self._path.parent)] if is_package else None
        loader = _Loader(fullname, str(self._path))
        return importlib.util.spec_from_file_location(
            fullname, self._path, loader=loader, submodule_search_locations=locations
        )


@dataclass
class MutantPlugin:
    """Takes the place of pytest's loop over the tests."""

    module: str
    numbers: Sequence[int]
    emit: Callable[[dict[str, Any]], None]
    _reports: list[Any] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._reports.append(report)

    def pytest_runtestloop(self, session: Any) -> bool:
        importlib.import_module(self.module)  # in case that only a test does
        items = {item.nodeid: item for item in session.items}
        reached = self._record_reach(items)
        for name, reach in reached.items():
            if not reach.has_passed:
                self.emit({"failed": name})
        for number in self.numbers:
            tests = [
                (reach.seconds, name) for name, reach in reached.items() if number in reach.mutants and reach.has_passed
            ]
            self.emit({"mutant": number, "outcome": self._try(number, items, sorted(tests)) if tests else NOT_REACHED})
        return True

    def _record_reach(self, items: dict[str, Any]) -> dict[str, Reach]:
        """Run all tests in a child process."""
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            with open(writer, "w") as results:
                for name, reach in self._run_all(items):
                    results.write(json.dumps([name, reach.seconds, sorted(reach.mutants), reach.has_passed]) + "\n")
                    results.flush()
            os._exit(0)
        os.close(writer)
        with open(reader) as results:
            rows = [json.loads(line) for line in results]
        os.waitpid(child, 0)
        return {name: Reach(seconds, set(mutants), has_passed) for name, seconds, mutants, has_passed in rows}

    def _run_all(self, items: dict[str, Any]) -> Iterator[tuple[str, Reach]]:
        module = sys.modules[self.module]

        def record() -> None:
            setattr(module, SWITCH, _Recorder())

        for name, has_passed, seconds in self._run(list(items.values()), before=record):
            yield name, Reach(seconds, getattr(module, SWITCH).numbers, has_passed)

    def _run(self, items: Sequence[Any], before: Callable[[], None]) -> Iterator[tuple[str, bool, float]]:
        """Run tests; yield the name of each, whether it has passed, and how long it took."""
        for item, following in zip(items, [*items[1:], None], strict=True):
            before()
            self._reports.clear()
            started = time.perf_counter()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            yield item.nodeid, not any(report.failed for report in self._reports), time.perf_counter() - started

    def _try(self, number: int, items: dict[str, Any], tests: list[tuple[float, str]]) -> str:
        """Run the tests in a child process with the mutant."""
        expected_s = sum(seconds for seconds, _ in tests)
        child = os.fork()
        if not child:
            os.setsid()
            limit = round(time.process_time() + _MIN_CPU_S + _CPU_FACTOR * expected_s)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            setattr(sys.modules[self.module], SWITCH, number)
            for _, has_passed, _ in self._run([items[name] for _, name in tests], before=lambda: None):
                if not has_passed:
                    os._exit(1)
            os._exit(0)
        status = _wait(child, _MIN_WALL_S + _WALL_FACTOR * expected_s)
        if status is None or os.WIFSIGNALED(status):
            return TIMEOUT
        return KILLED if os.WEXITSTATUS(status) else SURVIVED


def _wait(child: int, timeout_s: float) -> int | None:
    """Return the status of a child process with which its process group ends; None if it did not end in time."""
    descriptor = os.pidfd_open(child)
    try:
        has_ended, _, _ = select.select([descriptor], [], [], timeout_s)
    finally:
        os.close(descriptor)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return status if has_ended else None


def main() -> None:
    import pytest

    request = json.load(sys.stdin)
    results = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def emit(row: dict[str, Any]) -> None:
        results.write(json.dumps(row) + "\n")
        results.flush()

    sys.meta_path.insert(0, MutatedModuleFinder(request["module"], Path(request["path"])))
    plugin = MutantPlugin(request["module"], request["numbers"], emit)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    emit({"exit": int(pytest.main([*options, *request.get("options", ()), *request["tests"]], plugins=[plugin]))})


if __name__ == "__main__":
    main()
