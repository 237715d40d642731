"""Tries whether tests notice small changes of the source: python -m tools.mutants [options] [module ...]

A module is a path below src/sampan, such as storage/cacher/watcher.py. A fixed seed selects some mutants of each. They
meet the tests of the module first (tests/storage/cacher/test_watcher*.py), and the survivors some that import the
module, or are near. The exit code is 1 if a mutant survives that equivalent.toml does not list.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.mutants.mutations import Mutant, mutate
from tools.mutants.runner import KILLED, NOT_REACHED, SURVIVED, TIMEOUT

ROOT = Path(__file__).resolve().parents[2]
SOURCE, TESTS = ROOT / "src/sampan", ROOT / "tests"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
NEAREST_TESTS = 12
"""How many test modules of the directory are tried at the most after the mirrored ones."""


@dataclass(slots=True, kw_only=True)
class ModuleResult:
    path: str
    mutants: list[Mutant]
    survivors: list[Mutant]
    equivalent: set[str]
    """The names of mutants that cannot be noticed."""
    timeouts: int = 0
    seconds: float = 0.0
    broken_tests: list[str] = field(default_factory=list)
    """Tests that fail without a mutant."""

    @property
    def gaps(self) -> list[Mutant]:
        return [mutant for mutant in self.survivors if mutant.name not in self.equivalent]

    @property
    def count(self) -> int:
        """The number of mutants that a test could notice."""
        return sum(1 for mutant in self.mutants if mutant.name not in self.equivalent)


def main() -> None:
    options = _parse_arguments()
    equivalent = tomllib.loads(EQUIVALENT.read_text())
    results = []
    for path, lines in _select_modules(options):
        mutants = _select_mutants(path, lines, options)
        if mutants:
            results.append(_try_module(path, mutants, set(equivalent.get(path, {})), options.wider))
            print(_describe(results[-1]), flush=True)
    count, gaps = sum(result.count for result in results), sum(len(result.gaps) for result in results)
    if count:
        print(
            f"{len(results)} modules: {count - gaps} of {count} mutants noticed ({100 * (count - gaps) / count:.0f}%)"
        )
    sys.exit(bool(gaps))


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="a path below src/sampan")
    parser.add_argument("--changed", metavar="REVISION", help="the lines that changed since a revision of git")
    parser.add_argument("--count", type=int, default=12, help="how many mutants of each module (default: %(default)s)")
    parser.add_argument("--seed", default="sampan", help="another seed selects other mutants")
    parser.add_argument("--match", default="", metavar="PATTERN", help="only mutants whose name matches the pattern")
    parser.add_argument("--wider", action=argparse.BooleanOptionalAction, default=True, help="try other tests, too")
    return parser.parse_args()


def _select_modules(options: argparse.Namespace) -> Iterator[tuple[str, set[int] | None]]:
    """Yield the modules, and the lines whose mutants are tried; None for all lines."""
    if options.changed:
        yield from _list_changed_lines(options.changed)
    for module in options.modules:
        yield str((SOURCE / module).relative_to(SOURCE)), None


def _list_changed_lines(revision: str) -> Iterator[tuple[str, set[int] | None]]:
    command = ["git", "diff", "--unified=0", "--no-color", "--diff-filter=d", revision, "--", str(SOURCE)]
    diff = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for part in re.split(r"^\+\+\+ b/", diff, flags=re.MULTILINE)[1:]:
        path = part.partition("\n")[0]
        lines: set[int] = set()
        for first, count in re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", part, flags=re.MULTILINE):
            lines |= set(range(int(first), int(first) + int(count or 1)))
        if lines and path.endswith(".py") and "api/types/" not in path:
            yield str((ROOT / path).relative_to(SOURCE)), lines


def _select_mutants(path: str, lines: set[int] | None, options: argparse.Namespace) -> list[Mutant]:
    _, mutants = mutate((SOURCE / path).read_text(), path)
    if lines is not None:
        mutants = [mutant for mutant in mutants if not lines.isdisjoint(range(mutant.line, mutant.last_line + 1))]
    mutants = [mutant for mutant in mutants if re.search(options.match, mutant.name)]
    chosen = random.Random(f"{options.seed} {path}").sample(mutants, min(options.count, len(mutants)))
    return sorted(chosen, key=lambda mutant: mutant.number)


def _try_module(path: str, mutants: list[Mutant], equivalent: set[str], wider: bool) -> ModuleResult:
    result = ModuleResult(path=path, mutants=mutants, survivors=mutants, equivalent=equivalent)
    started = time.monotonic()
    mirrored = _list_mirrored_tests(path)
    for tests in (mirrored, _list_nearest_tests(path, mirrored) if wider else []):
        if tests and result.gaps:
            _run_tests(result, tests)
    result.seconds = time.monotonic() - started
    return result


def _list_mirrored_tests(path: str) -> list[Path]:
    module = Path(path)
    name = module.parent.name if module.stem == "__init__" else module.stem
    directory = TESTS / (module.parent.parent if module.stem == "__init__" else module.parent)
    tests = {*directory.glob(f"test_{name}.py"), *directory.glob(f"test_{name}_*.py")}
    return sorted(tests or directory.parent.glob(f"test_{module.parent.name}*.py"))


def _list_nearest_tests(path: str, mirrored: Sequence[Path]) -> list[Path]:
    """Return the test modules that import the module, then others of its directory or, if there is none, of the one
    above it."""
    module = ".".join(("sampan", *Path(path).with_suffix("").parts)).removesuffix(".__init__")
    package, _, name = module.rpartition(".")
    imports = re.compile(
        rf"^\s*(from|import) {re.escape(module)}\b|^from {re.escape(package)} import.*\b{name}\b", re.M
    )
    skipped = [TESTS / name for name in ("e2e", "cli", "operators", "docs", "growth", "fuzz")]
    modules = [test for test in TESTS.rglob("test_*.py") if not any(test.is_relative_to(skip) for skip in skipped)]
    importing = {test for test in modules if imports.search(test.read_text())}
    directory = (TESTS / path).parent
    while not (near := {test for test in modules if test.is_relative_to(directory)}) and directory != TESTS:
        directory = directory.parent
    ordered = [*sorted(importing), *sorted(near - importing)]
    return [test for test in ordered if test not in mirrored][:NEAREST_TESTS]


def _run_tests(result: ModuleResult, tests: Iterable[Path]) -> None:
    """Run tests on the survivors, and remove those that are noticed."""
    module = ".".join(("sampan", *Path(result.path).with_suffix("").parts)).removesuffix(".__init__")
    numbers = [mutant.number for mutant in result.gaps]
    request = {
        "module": module,
        "path": str(SOURCE / result.path),
        "numbers": numbers,
        "tests": [str(test.relative_to(ROOT)) for test in tests],
    }
    command = [sys.executable, "-m", "tools.mutants.runner"]
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "mutants"}
    run = subprocess.run(
        command, cwd=ROOT, env=environment, input=json.dumps(request), stdout=subprocess.PIPE, text=True, check=True
    )
    outcomes = {}
    for line in run.stdout.splitlines():
        match json.loads(line):
            case {"mutant": number, "outcome": outcome}:
                outcomes[number] = outcome
            case {"failed": name}:
                result.broken_tests.append(name)
    result.timeouts += sum(1 for outcome in outcomes.values() if outcome == TIMEOUT)
    noticed = {number for number, outcome in outcomes.items() if outcome in (KILLED, TIMEOUT)}
    assert set(outcomes.values()) <= {KILLED, TIMEOUT, SURVIVED, NOT_REACHED}
    result.survivors = [mutant for mutant in result.survivors if mutant.number not in noticed]


def _describe(result: ModuleResult) -> str:
    noticed = result.count - len(result.gaps)
    notes = [f"{result.seconds:.0f} s"]
    if result.timeouts:
        notes.append(f"{result.timeouts} by time")
    if ignored := len(result.mutants) - result.count:
        notes.append(f"{ignored} equivalent")
    lines = [f"{result.path}: {noticed} of {result.count} noticed ({', '.join(notes)})"]
    lines += [f"  line {mutant.line}: {mutant.name}" for mutant in result.gaps]
    lines += [f"  fails without a mutant: {name}" for name in result.broken_tests]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
