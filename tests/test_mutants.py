"""The mutation tests (`tools/mutants`): the changes of a module, and which of them tests notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tools.mutants.mutations import SWITCH, Mutant, mutate

SOURCE = '''"""A module."""

from __future__ import annotations

LIMIT = 5


class Counter:
    """Counts."""

    def __init__(self, log: list[str], first: int = 1) -> None:
        self.count, self.log = first, log

    def add(self, number: int, *, is_shown: bool = False) -> int | None:
        """Add a number below the limit."""
        if not is_shown and number < 3:
            self.count += number
            self.log.append(f"added {number + 1}")
        elif number > 9:
            raise ValueError("too large")
        return self.count
'''


def mutants_of(source: str) -> dict[str, Mutant]:
    return {mutant.name: mutant for mutant in mutate(source, "module.py")[1]}


def load(number: int) -> Any:
    tree, _ = mutate(SOURCE, "module.py")
    namespace: dict[str, Any] = {}
    exec(compile(tree, "module.py", "exec"), namespace)
    namespace[SWITCH] = number
    return namespace["Counter"]


def test_changes_of_a_module() -> None:
    """Constants outside of functions, default values, formatted strings and docstrings stay."""
    assert [name.removeprefix("Counter.add: ") for name in mutants_of(SOURCE)] == [
        "not is_shown -> is_shown",
        "3 -> 4",
        "number < 3 -> number <= 3",
        "number < 3 -> number >= 3",
        "not is_shown and number < 3 -> not is_shown or number < 3",
        "self.count += number -> pass",
        "self.count += number -> self.count -= number",
        "self.log.append(f'added {number + 1}') -> pass",
        "9 -> 10",
        "number > 9 -> number >= 9",
        "number > 9 -> number <= 9",
        "raise ValueError('too large') -> pass",
        "return self.count -> return None",
    ]


@pytest.mark.parametrize(
    ("change", "number", "result", "lines"),
    [
        ("", 2, 3, 1),
        ("number < 3 -> number <= 3", 3, 4, 1),
        ("number < 3 -> number >= 3", 5, 6, 1),
        ("3 -> 4", 3, 4, 1),
        ("not is_shown -> is_shown", 2, 1, 0),
        ("not is_shown and number < 3 -> not is_shown or number < 3", 7, 8, 1),
        ("self.count += number -> pass", 2, 1, 1),
        ("self.count += number -> self.count -= number", 2, -1, 1),
        ("self.log.append(f'added {number + 1}') -> pass", 2, 3, 0),
        ("raise ValueError('too large') -> pass", 10, 1, 0),
        ("return self.count -> return None", 2, None, 1),
    ],
)
def test_effect_of_a_change(change: str, number: int, result: int | None, lines: int) -> None:
    log: list[str] = []
    assert load(mutants_of(SOURCE)[f"Counter.add: {change}"].number if change else 0)(log).add(number) == result
    assert len(log) == lines


def test_equal_changes_of_a_function_have_different_names() -> None:
    names = list(mutants_of("def add(a, b):\n    return f(a + 1), f(a + 1)\n"))
    assert names[:4] == ["add: 1 -> 2", "add: a + 1 -> a - 1", "add: 1 -> 2 (#2)", "add: a + 1 -> a - 1 (#2)"]


MODULE = """
def is_small(number):
    return number < 3

def is_large(number):
    return number > 9
"""
TESTS = """
from small_module import is_small

def test_small():
    assert is_small(2)

def test_not_small():
    assert not is_small(3)

def test_failure():
    assert is_small(5)
"""


def test_outcomes_of_mutants(repository: Path, tmp_path: Path) -> None:
    module = tmp_path / "small_module.py"
    module.write_text(MODULE)
    (tmp_path / "test_small_module.py").write_text(TESTS)
    mutants = {mutant.number: mutant.name for mutant in mutants_of(MODULE).values()}
    request = {
        "module": "small_module",
        "path": str(module),
        "numbers": list(mutants),
        "tests": ["test_small_module.py"],
        "options": ["-p", "no:sampan"],
    }
    environment = {**os.environ, "PYTHONPATH": f"{repository}:{tmp_path}"}
    command = [sys.executable, "-m", "tools.mutants.runner"]
    text = json.dumps(request)
    result = subprocess.run(command, cwd=tmp_path, env=environment, input=text, capture_output=True, text=True)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert rows[0] == {"failed": "test_small_module.py::test_failure"}, result.stderr
    assert {mutants[row["mutant"]]: row["outcome"] for row in rows if "mutant" in row} == {
        "is_small: 3 -> 4": "killed",
        "is_small: number < 3 -> number <= 3": "killed",
        "is_small: number < 3 -> number >= 3": "killed",
        "is_small: return number < 3 -> return None": "killed",
        **dict.fromkeys((name for name in mutants.values() if name.startswith("is_large")), "not reached"),
    }


def test_listed_equivalent_mutants_exist(repository: Path) -> None:
    source = repository / "src/sampan"
    listed = tomllib.loads((repository / "tools/mutants/equivalent.toml").read_text())
    gone = [
        f"{path}: {name}"
        for path, names in listed.items()
        for name in names.keys() - {mutant.name for mutant in mutate((source / path).read_text(), path)[1]}
    ]
    assert gone == []
