"""The page about security names a test for every attack, and the tests exist."""

import ast
import re
from pathlib import Path

import pytest

_ROW = re.compile(r"^\| [^|]+ \| (`tests/.*`) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@pytest.fixture(scope="module")
def rows(repository: Path) -> list[str]:
    text = (repository / "docs/security.md").read_text()
    section = text.partition("## Attacks that tests repeat\n")[2].partition("\n## ")[0]
    return _ROW.findall(section)


def test_every_attack_has_a_test_that_exists(rows: list[str], repository: Path) -> None:
    named = [test for row in rows for test in _TEST.findall(row)]
    assert len(rows) > 40
    assert all(_TEST.sub("", row).strip(", ") == "" for row in rows)
    assert [f"{path}::{name}" for path, name in named if name not in functions(repository / path)] == []


def functions(path: Path) -> set[str]:
    if not path.exists():
        return set()
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
