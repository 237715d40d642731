"""Docstrings and parametrize ids of the conformance tests are official test names; some SIGs are complete, and
docs/compatibility.md has the right counts."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.conformance.programs import LATEST
from tests.e2e.conformance.fast_selection import FAST_SELECTION

HERE = Path(__file__).parent
GROUP = "[sig-"
COMPLETE = ("apps", "architecture", "instrumentation", "scheduling", "storage")


def strip_tags(name: str) -> str:
    """Return the name on one line, without the tags at its end."""
    name = " ".join(name.split())
    while name.endswith("]"):
        name = name[: name.rindex("[")].rstrip()
    return name


def docstrings() -> Iterator[str]:
    """Yield the official names in docstrings and parametrize ids: the first paragraphs of texts that start with a
    SIG."""
    for path in sorted(HERE.glob("*/test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(GROUP):
                yield strip_tags(node.value.partition("\n\n")[0])


def count_by_group(names: Iterable[str]) -> Counter[str]:
    return Counter(name[1 : name.index("]")] for name in names)


@pytest.fixture(scope="module")
def names(repository: Path) -> set[str]:
    text = (repository / "reference" / f"v{LATEST.minor}" / "conformance-tests.txt").read_text()
    return {strip_tags(name) for name in text.splitlines()}


def test_docstrings_are_official_test_names(names: set[str]) -> None:
    assert sorted(set(docstrings()) - names) == []


@pytest.mark.parametrize("group", COMPLETE)
def test_complete_groups_have_all_official_tests(names: set[str], group: str) -> None:
    expected = {name for name in names if name.startswith(f"{GROUP}{group}]")}
    assert expected
    assert sorted(expected - set(docstrings())) == []


@pytest.mark.parametrize(("module", "selected"), FAST_SELECTION.items())
def test_fast_selection_contains_only_existing_tests(module: str, selected: set[str]) -> None:
    text = (HERE / module).read_text()
    assert [name for name in sorted(selected) if not re.search(rf"\b{name}\b", text)] == []


def test_documented_counts_match(names: set[str], repository: Path) -> None:
    text = (repository / "docs" / "compatibility.md").read_text()
    rows = re.findall(r"^\| (sig-\S+|all) \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    described, here = count_by_group(names), count_by_group(set(docstrings()))
    counted = {group: (number, here[group]) for group, number in described.items()}
    counted["all"] = (len(names), len(set(docstrings())))
    assert {group: (int(number), int(there)) for group, number, there in rows} == counted
